#include "bench/adbench/generate.h"

#include "bench/adbench/data.h"
#include "tools/support/random.h"

#include <fmt/format.h>
#include <cmath>
#include <fstream>
#include <numbers>
#include <regex>
#include <stdexcept>

namespace adbench {
namespace {

namespace fs = std::filesystem;
using loopgrad::tools::Random;

/// A text file that is written number by number.
class Writer {
 public:
  explicit Writer(const fs::path& file) : name_(file.string()), out_(file) {}
  void line(const std::string& text) { out_ << text << "\n"; }
  template <class Make>
  void line(std::int64_t count, const Make& make) {
    for (std::int64_t i = 0; i < count; ++i) out_ << fmt::format("{}{:.6f}", i == 0 ? "" : " ", make(i));
    out_ << "\n";
  }
  void close() {
    if (!out_.flush()) throw std::runtime_error("cannot write '" + name_ + "'");
  }

 private:
  std::string name_;
  std::ofstream out_;
};

double normal(Random& random) {
  const double u = random.uniform(1e-12, 1), v = random.uniform(0, 2 * std::numbers::pi);
  return std::sqrt(-2 * std::log(u)) * std::cos(v);
}

void write_gmm(const fs::path& file, std::int64_t d, std::int64_t k, const GeneratorOptions& options) {
  Random random(options.seed);
  Writer out(file);
  const auto draw = [&](std::int64_t) { return normal(random); };
  out.line(fmt::format("{} {} {}", d, k, options.points));
  for (std::int64_t i = 0; i < k; ++i) out.line(1, draw);
  for (std::int64_t i = 0; i < k; ++i) out.line(d, [&](std::int64_t) { return random.uniform(0, 1); });
  for (std::int64_t i = 0; i < k; ++i) out.line(d * (d + 1) / 2, draw);
  for (std::int64_t i = 0; i < options.points; ++i) out.line(d, draw);
  out.line("1.000000 0");
  out.close();
}

/// One camera fifty units in front of the point that it sees.
void write_ba(const fs::path& file, std::int64_t n, std::int64_t m, std::int64_t p, const GeneratorOptions& options) {
  Random random(options.seed);
  Writer out(file);
  out.line(fmt::format("{} {} {}", n, m, p));
  const auto about = [&](double at, double spread) { return at + random.uniform(-spread, spread); };
  const double centre[] = {about(35, 5), about(35, 5), about(50, 5)};
  const double camera[] = {about(0, 1),    about(0, 1),  about(0, 1),  centre[0],     centre[1],     centre[2],
                           about(400, 50), about(0, 10), about(0, 10), about(0, 0.1), about(0, 0.01)};
  out.line(kCameraParameters, [&](std::int64_t i) { return camera[i]; });
  out.line(3, [&](std::int64_t) { return random.uniform(0, 8); });
  out.line(1, [&](std::int64_t) { return random.uniform(0.1, 1); });
  out.line(2, [&](std::int64_t) { return random.uniform(0, 1000); });
  out.close();
}

std::string joined(const Numbers& values) { return fmt::format("{:.16g}", fmt::join(values, ":")); }

/// An affine map of 4 by 4 with a small turn about z and a shift along the finger; its inverse where asked for.
Numbers bone_map(double angle, double shift, bool inverse) {
  const double c = std::cos(angle), s = inverse ? -std::sin(angle) : std::sin(angle);
  const double x = inverse ? -s * -shift : 0, y = inverse ? -c * shift : shift;
  return {c, -s, 0, x, s, c, 0, y, 0, 0, 1, 0, 0, 0, 0, 1};
}

/// A wrist, five fingers of four bones, a forearm; vertices that one to four bones move.
void write_model(const fs::path& folder, const GeneratorOptions& options) {
  fs::create_directories(folder);
  Random random(options.seed + 1);
  Writer bones(folder / "bones.txt"), vertices(folder / "vertices.txt"), triangles(folder / "triangles.txt");
  const char* fingers[] = {"thumb", "index", "middle", "ring", "pinky"};
  const auto bone = [&](const std::string& name, int parent) {
    const double angle = random.uniform(-0.5, 0.5), shift = random.uniform(0, 0.04);
    bones.line(fmt::format("{}:{}:{}:{}", name, parent, joined(bone_map(angle, shift, false)),
                           joined(bone_map(random.uniform(-0.5, 0.5), shift, true))));
  };
  bone("wrist", -1);
  for (int finger = 0; finger < kFingers; ++finger)
    for (int joint = 1; joint <= 4; ++joint)
      bone(fmt::format("{}{}", fingers[finger], joint), joint == 1 ? 0 : 4 * finger + joint - 1);
  bone("forearm", 0);
  for (std::int64_t v = 0; v < options.vertices; ++v) {
    Numbers head;
    for (int i = 0; i < 3; ++i) head.push_back(random.uniform(-0.1, 0.1));
    for (int i = 0; i < 5; ++i) head.push_back(i == 2 ? 1.0 : 0.0);
    const std::int64_t count = 1 + random.below(4), first = random.below(19);
    std::string line = joined(head) + fmt::format(":{}", count);
    for (std::int64_t i = 0; i < count; ++i)
      line += fmt::format(":{}:{:.16g}", first + i, 1.0 / static_cast<double>(count));
    vertices.line(line);
  }
  for (std::int64_t v = 2; v < options.vertices; ++v)
    for (std::int64_t other = 1; other < 3; ++other) triangles.line(fmt::format("{}:{}:{}", v - 2, v - other % 2, v));
  bones.close(), vertices.close(), triangles.close();
}

void write_hand(const fs::path& file, std::int64_t points, const GeneratorOptions& options) {
  const fs::path model = file.parent_path() / "model";
  write_model(model, options);
  Random random(options.seed);
  Writer out(file);
  out.line(fmt::format("{} {}", points, kThetas));
  const std::int64_t targets = options.complicated ? 2 * (options.vertices - 2) : options.vertices;
  for (std::int64_t i = 0; i < points; ++i)
    out.line(fmt::format("{} {:.6f} {:.6f} {:.6f}", random.below(targets), random.uniform(0, 1), random.uniform(0, 1),
                         random.uniform(0, 1)));
  if (options.complicated)
    for (std::int64_t i = 0; i < points; ++i) out.line(2, [&](std::int64_t) { return random.uniform(0, 0.5); });
  for (std::int64_t i = 0; i < kThetas; ++i) out.line(1, [&](std::int64_t) { return normal(random); });
  out.close();
}

/// Parameters are uniform, as ADBench draws them; characters have 14 bits, of which the last seven vary.
void write_lstm(const fs::path& file, std::int64_t layers, std::int64_t characters, const GeneratorOptions& options) {
  constexpr std::int64_t kBits = 14;
  Random random(options.seed);
  Writer out(file);
  const auto draw = [&](std::int64_t) { return random.uniform(0, 1); };
  out.line(fmt::format("{} {} {}\n", layers, characters, kBits));
  for (std::int64_t i = 0; i < 2 * layers; ++i) out.line(4 * kBits, draw);
  out.line("");
  for (int i = 0; i < 3; ++i) out.line(kBits, draw);
  out.line("");
  for (std::int64_t i = 0; i < 2 * layers; ++i) out.line(kBits, draw);
  out.line("");
  for (std::int64_t i = 0; i < characters; ++i)
    out.line(kBits, [&](std::int64_t bit) { return bit < 7 ? 0.0 : static_cast<double>(random.below(2)); });
  out.close();
}

}  // namespace

void generate(const fs::path& file, const GeneratorOptions& options) {
  const std::string name = file.stem().string();
  std::smatch found;
  const auto is = [&](const char* pattern) { return std::regex_match(name, found, std::regex(pattern)); };
  const auto number = [&](std::size_t k) { return static_cast<std::int64_t>(std::stoll(found[k].str())); };
  if (options.points < 1 || options.vertices < 3)
    throw std::runtime_error("at least a point and three vertices are needed");
  if (!file.parent_path().empty()) fs::create_directories(file.parent_path());
  if (is("gmm_d([0-9]+)_K([0-9]+)")) write_gmm(file, number(1), number(2), options);
  else if (is("ba[0-9]*_n([0-9]+)_m([0-9]+)_p([0-9]+)")) write_ba(file, number(1), number(2), number(3), options);
  else if (is("hand[0-9]*_t26_c([0-9]+)")) write_hand(file, number(1), options);
  else if (is("lstm_l([0-9]+)_c([0-9]+)")) write_lstm(file, number(1), number(2), options);
  else
    throw std::runtime_error(
        fmt::format("'{}' is no name of ADBench's: gmm_d2_K5, ba1_n49_m7776_p31843, hand1_t26_c100 "
                    "and lstm_l2_c1024 are",
                    name));
}

}  // namespace adbench
