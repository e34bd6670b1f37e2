#include "values.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <map>

namespace loopgrad::python {
namespace {

std::string kind_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

/// A number of Python or NumPy; numbers are weak literals as in C++.
std::optional<Value> try_number(nb::handle object, const SourceLocation& where) {
  if (PyBool_Check(object.ptr())) return Value(object.ptr() == Py_True, where);
  if (PyFloat_Check(object.ptr())) return Value(PyFloat_AS_DOUBLE(object.ptr()), where);
  if (PyIndex_Check(object.ptr())) {
    const nb::object whole = nb::steal(PyNumber_Index(object.ptr()));
    if (!whole.is_valid()) return PyErr_Clear(), std::nullopt;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
    if (overflow != 0) fail_usage("the literal does not fit in 64 bits with a sign", "write a floating literal", where);
    return Value(static_cast<std::int64_t>(number), where);
  }
  // np.float32(2) and the like, but nothing with a shape
  if (nb::hasattr(object, "__float__") && !nb::hasattr(object, "__len__") && !nb::isinstance<nb::str>(object)) {
    const double number = PyFloat_AsDouble(object.ptr());
    if (number == -1 && PyErr_Occurred()) return PyErr_Clear(), std::nullopt;
    return Value(number, where);
  }
  return std::nullopt;
}

using Binary = Value (*)(const Operand&, const Operand&);
using Unary = Value (*)(const Operand&);

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

template <Binary op>
nb::object apply(nb::handle a, nb::handle b) {
  const SourceLocation where = caller();
  const auto x = try_value(a, where), y = try_value(b, where);
  if (!x || !y) return not_implemented();
  return nb::cast(op({*x, where}, {*y, where}));
}

template <Binary op>
nb::object swapped(nb::handle a, nb::handle b) {
  return apply<op>(b, a);
}

template <Unary op>
Value apply(nb::handle a) {
  const SourceLocation where = caller();
  return op(operand_of(a, where));
}

template <Binary op>
Value call(nb::handle a, nb::handle b) {
  const SourceLocation where = caller();
  return op(operand_of(a, where), operand_of(b, where));
}

Value quotient(const Operand& a, const Operand& b) {
  if (is_float(a.value.type()) || is_float(b.value.type())) return a / b;
  fail_usage("'/' of two integers", "use // for a quotient that is rounded down, or lg.cast(lg.f32, a) / b",
             a.location);
}

Value floor_quotient(const Operand& a, const Operand& b) {
  if (is_float(a.value.type()) || is_float(b.value.type())) return floor(a / b);
  return a / b;
}

Value sum(const Operand& a, const Operand& b) { return a + b; }
Value difference(const Operand& a, const Operand& b) { return a - b; }
Value product(const Operand& a, const Operand& b) { return a * b; }
Value remainder_of(const Operand& a, const Operand& b) { return a % b; }
Value less(const Operand& a, const Operand& b) { return a < b; }
Value less_equal(const Operand& a, const Operand& b) { return a <= b; }
Value greater(const Operand& a, const Operand& b) { return a > b; }
Value greater_equal(const Operand& a, const Operand& b) { return a >= b; }
Value equal(const Operand& a, const Operand& b) { return a == b; }
Value not_equal(const Operand& a, const Operand& b) { return a != b; }
Value conjunction(const Operand& a, const Operand& b) { return a && b; }
Value disjunction(const Operand& a, const Operand& b) { return a || b; }
Value negation(const Operand& a) { return !a; }
Value minus(const Operand& a) { return -a; }
Value plus(const Operand& a) { return a.value; }

/// What Values and elements have in common.
template <class Class>
void bind_operators(Class& c) {
  const auto binary = [&](const char* name, auto f) { c.def(name, f, nb::arg("other").none(), nb::is_operator()); };
  binary("__add__", &apply<sum>);
  binary("__radd__", &swapped<sum>);
  binary("__sub__", &apply<difference>);
  binary("__rsub__", &swapped<difference>);
  binary("__mul__", &apply<product>);
  binary("__rmul__", &swapped<product>);
  binary("__truediv__", &apply<quotient>);
  binary("__rtruediv__", &swapped<quotient>);
  binary("__floordiv__", &apply<floor_quotient>);
  binary("__rfloordiv__", &swapped<floor_quotient>);
  binary("__mod__", &apply<remainder_of>);
  binary("__rmod__", &swapped<remainder_of>);
  binary("__pow__", &apply<pow>);
  binary("__rpow__", &swapped<pow>);
  binary("__lt__", &apply<less>);
  binary("__le__", &apply<less_equal>);
  binary("__gt__", &apply<greater>);
  binary("__ge__", &apply<greater_equal>);
  binary("__eq__", &apply<equal>);
  binary("__ne__", &apply<not_equal>);
  binary("__and__", &apply<conjunction>);
  binary("__rand__", &swapped<conjunction>);
  binary("__or__", &apply<disjunction>);
  binary("__ror__", &swapped<disjunction>);
  c.def("__neg__", &apply<minus>);
  c.def("__pos__", &apply<plus>);
  c.def("__invert__", &apply<negation>);
  c.def("__abs__", &apply<abs>);
  c.def("__bool__", [](nb::handle) -> bool {
    fail_usage("a value of a program decides nothing while it is recorded",
               "use `with p.when(condition):` or lg.select; & | ~ in place of and, or, not; "
               "(a <= b) & (b < c) in place of a <= b < c",
               caller());
  });
  const auto not_a_number = [](nb::handle) -> double {
    fail_usage("a value of a program is no number while it is recorded",
               "use lg.exp and its like in place of math.exp, and lg.cast in place of float() and int()", caller());
  };
  c.def("__float__", not_a_number);
  c.def("__int__", not_a_number);
  c.def("__index__", not_a_number);
}

template <class Update>
PyElement& update(PyElement& self, nb::handle value, Update apply_to) {
  const SourceLocation where = caller();
  apply_to(self.element(where), operand_of(value, where, "what is added or multiplied"));
  self.updated = true;
  return self;
}

void set_element(PyElement& self, nb::handle key, nb::handle value) {
  const SourceLocation where = caller();
  const bool whole = key.ptr() == Py_Ellipsis || (nb::isinstance<nb::tuple>(key) && nb::len(key) == 0);
  if (!whole) fail_usage("an element has no elements", "write s[...] = v for a scalar", where);
  if (nb::isinstance<PyElement>(value) && nb::cast<PyElement&>(value).slot == self.slot && self.updated) {
    self.updated = false;  // s[...] += v
    return;
  }
  self.element(where) = operand_of(value, where, "what is stored");
}

void bind_element(nb::module_& m) {
  nb::class_<PyElement> c(m, "Element",
                          "One element of an array, or a scalar. Reads when used as a value; `s[...] = v` or "
                          "`s.set(v)` writes, and so do `+= -= *= /=`.");
  bind_operators(c);
  constexpr auto self = nb::rv_policy::none;
  c.def(
      "__iadd__",
      [](PyElement& e, nb::handle v) -> PyElement& {
        return update(e, v, [](const Element& x, const Operand& y) { x += y; });
      },
      self);
  c.def(
      "__isub__",
      [](PyElement& e, nb::handle v) -> PyElement& {
        return update(e, v, [](const Element& x, const Operand& y) { x -= y; });
      },
      self);
  c.def(
      "__imul__",
      [](PyElement& e, nb::handle v) -> PyElement& {
        return update(e, v, [](const Element& x, const Operand& y) { x *= y; });
      },
      self);
  c.def(
      "__itruediv__",
      [](PyElement& e, nb::handle v) -> PyElement& {
        return update(e, v, [](const Element& x, const Operand& y) { x /= y; });
      },
      self);
  c.def(
      "min_with",
      [](PyElement& e, nb::handle v) {
        const SourceLocation where = caller();
        e.element(where).min_with(operand_of(v, where));
      },
      nb::arg("value"), "`element = min(element, value)`, in any order over iterations.");
  c.def(
      "max_with",
      [](PyElement& e, nb::handle v) {
        const SourceLocation where = caller();
        e.element(where).max_with(operand_of(v, where));
      },
      nb::arg("value"), "`element = max(element, value)`, in any order over iterations.");
  c.def(
      "set",
      [](PyElement& e, nb::handle v) {
        const SourceLocation where = caller();
        e.element(where) = operand_of(v, where, "what is stored");
      },
      nb::arg("value"), "Assigns.");
  c.def(
      "__getitem__", [](PyElement& e, nb::handle) -> PyElement& { return e; }, self);
  c.def("__setitem__", &set_element);
}

void bind_functions(nb::module_& m) {
  const auto one = [&](const char* name, auto f) { m.def(name, f, nb::arg("a")); };
  one("abs", &apply<abs>);
  one("sqrt", &apply<sqrt>);
  one("exp", &apply<exp>);
  one("log", &apply<log>);
  one("log1p", &apply<log1p>);
  one("expm1", &apply<expm1>);
  one("sin", &apply<sin>);
  one("cos", &apply<cos>);
  one("tan", &apply<tan>);
  one("asin", &apply<asin>);
  one("acos", &apply<acos>);
  one("atan", &apply<atan>);
  one("sinh", &apply<sinh>);
  one("cosh", &apply<cosh>);
  one("tanh", &apply<tanh>);
  one("sigmoid", &apply<sigmoid>);
  one("stop_gradient", &apply<stop_gradient>);
  one("erf", &apply<erf>);
  one("floor", &apply<floor>);
  one("ceil", &apply<ceil>);
  m.def("min", &call<min>, nb::arg("a"), nb::arg("b"));
  m.def("max", &call<max>, nb::arg("a"), nb::arg("b"));
  m.def("pow", &call<pow>, nb::arg("base"), nb::arg("exponent"));
  m.def("atan2", &call<atan2>, nb::arg("y"), nb::arg("x"));
  m.def(
      "fma",
      [](nb::handle a, nb::handle b, nb::handle c) {
        const SourceLocation where = caller();
        return fma(operand_of(a, where), operand_of(b, where), operand_of(c, where));
      },
      nb::arg("a"), nb::arg("b"), nb::arg("c"), "a*b + c with one rounding.");
  m.def(
      "select",
      [](nb::handle condition, nb::handle a, nb::handle b) {
        const SourceLocation where = caller();
        return select(operand_of(condition, where), operand_of(a, where), operand_of(b, where));
      },
      nb::arg("condition"), nb::arg("a"), nb::arg("b"), "a where the condition holds, else b; only that is evaluated.");
  m.def(
      "cast",
      [](nb::handle type, nb::handle a) {
        const SourceLocation where = caller();
        return cast(value_type(type_of(type, where)), operand_of(a, where));
      },
      nb::arg("dtype"), nb::arg("a"), "Conversion to another type; to an integer it truncates.");
}

}  // namespace

const Element& PyElement::element(const SourceLocation& where) const {
  if (slot->element) return *slot->element;
  fail_usage("this element was formed in a body that has ended",
             "form it again, as in x[i], where it is used, or declare the scalar outside of the loop", where);
}

void fail_usage(std::string message, std::string hint, const SourceLocation& where) {
  throw UsageError(
      {.code = ErrorCode::BadProgram, .message = std::move(message), .hint = std::move(hint), .location = where});
}

std::optional<Value> try_value(nb::handle object, const SourceLocation& where) {
  if (nb::isinstance<Value>(object)) return nb::cast<const Value&>(object);
  if (nb::isinstance<PyElement>(object)) return Value(nb::cast<PyElement&>(object).element(where), where);
  return try_number(object, where);
}

Value value_of(nb::handle object, const SourceLocation& where, const char* what) {
  if (auto value = try_value(object, where)) return *std::move(value);
  fail_usage(fmt::format("{} is a {}, which is no value of a program", what, kind_of(object)),
             "use sizes, iterators, elements as in x[i], and numbers; arrays from outside are declared with p.input",
             where);
}

Operand operand_of(nb::handle object, const SourceLocation& where, const char* what) {
  return {value_of(object, where, what), where};
}

ScalarType type_of(nb::handle object, const SourceLocation& where) {
  if (nb::isinstance<ScalarType>(object)) return nb::cast<ScalarType>(object);
  static const std::map<std::string, ScalarType, std::less<>> names = {
      {"bool", ScalarType::Bool}, {"i32", ScalarType::I32},     {"int32", ScalarType::I32},
      {"i64", ScalarType::I64},   {"int64", ScalarType::I64},   {"int", ScalarType::I64},
      {"f16", ScalarType::F16},   {"float16", ScalarType::F16}, {"bf16", ScalarType::BF16},
      {"f32", ScalarType::F32},   {"float32", ScalarType::F32}, {"bfloat16", ScalarType::BF16},
      {"f64", ScalarType::F64},   {"float64", ScalarType::F64}, {"float", ScalarType::F64}};
  std::string name = nb::cast<std::string>(nb::str(nb::hasattr(object, "__name__") ? object.attr("__name__") : object));
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) name = name.substr(dot + 1);  // torch.float32
  if (const auto found = names.find(name); found != names.end()) return found->second;
  fail_usage(fmt::format("there is no type '{}'", name), "the types are bool, i32, i64, f16, bf16, f32 and f64", where);
}

void bind_values(nb::module_& m) {
  nb::enum_<ScalarType>(m, "DType", "Types of arrays and values.")
      .value("bool", ScalarType::Bool)
      .value("i32", ScalarType::I32)
      .value("i64", ScalarType::I64)
      .value("f16", ScalarType::F16)
      .value("bf16", ScalarType::BF16)
      .value("f32", ScalarType::F32)
      .value("f64", ScalarType::F64);
  nb::class_<Value> value(m, "Value", "A recorded expression: a size, an iterator, a number, or what is made of them.");
  bind_operators(value);
  value.def_prop_ro("dtype", &Value::type);
  bind_element(m);
  bind_functions(m);
}

}  // namespace loopgrad::python
