#include "bench/adbench/data.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace adbench {
namespace {

namespace fs = std::filesystem;

/// Numbers of a text file one after the other, between blanks (or colons).
class Reader {
 public:
  explicit Reader(const fs::path& file) : name_(file.string()) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error(fmt::format("cannot read '{}'", name_));
    text_.assign(std::istreambuf_iterator<char>(in), {});
  }
  double number() {
    skip();
    double value = 0;
    const char* first = text_.data() + at_ + (at_ < text_.size() && text_[at_] == '+');
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  std::int64_t integer(std::int64_t least = 0) {
    const double value = number();
    const auto result = static_cast<std::int64_t>(value);
    if (static_cast<double>(result) != value || result < least) fail(fmt::format("an integer from {} on", least));
    return result;
  }
  Numbers numbers(std::int64_t count) {
    Numbers all(static_cast<std::size_t>(count));
    for (double& value : all) value = number();
    return all;
  }
  /// What stands before the next colon.
  std::string word() {
    skip();
    const std::size_t end = text_.find(':', at_);
    if (end == std::string::npos) fail("a name and ':'");
    const std::string result = text_.substr(at_, end - at_);
    at_ = end;
    return result;
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  void expect_end() {
    if (!at_end()) fail("the end of the file");
  }
  [[noreturn]] void fail(const std::string& wanted) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw std::runtime_error(fmt::format("{}:{}: {} is expected here", name_, line, wanted));
  }

 private:
  void skip() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == ':')) ++at_;
  }
  std::string name_, text_;
  std::size_t at_ = 0;
};

void read_affine(Reader& in, Numbers& to) {
  if (!append_affine(in.numbers(16), to)) in.fail("an affine map, whose last row is 0 0 0 1, in front");
}

void read_model(const fs::path& folder, Hand& hand) {
  Reader bones(folder / "bones.txt");
  while (!bones.at_end()) {
    hand.bone_names.push_back(bones.word());
    hand.parents.push_back(static_cast<int>(bones.integer(-1)));
    read_affine(bones, hand.base_relatives);
    read_affine(bones, hand.inverse_absolutes);
  }
  Reader vertices(folder / "vertices.txt");
  while (!vertices.at_end()) {
    const Numbers place = vertices.numbers(3);
    hand.base_positions.insert(hand.base_positions.end(), place.begin(), place.end());
    vertices.numbers(5);  // normal and texture, which no objective reads
    Numbers row(hand.parents.size());
    for (std::int64_t left = vertices.integer(); left > 0; --left) {
      const auto bone = static_cast<std::size_t>(vertices.integer());
      if (bone >= row.size()) vertices.fail("the number of a bone");
      row[bone] = vertices.number();
    }
    hand.weights.insert(hand.weights.end(), row.begin(), row.end());
  }
  Reader triangles(folder / "triangles.txt");
  while (!triangles.at_end()) hand.triangles.push_back(static_cast<int>(triangles.integer()));
}

}  // namespace

bool append_affine(const Numbers& matrix, Numbers& to) {
  if (matrix[12] != 0 || matrix[13] != 0 || matrix[14] != 0 || matrix[15] != 1) return false;
  to.insert(to.end(), matrix.begin(), matrix.begin() + 12);
  return true;
}

Gmm read_gmm(const fs::path& file, bool replicate_point) {
  Reader in(file);
  Gmm gmm;
  gmm.d = in.integer(1), gmm.k = in.integer(1), gmm.n = in.integer(1);
  gmm.alphas = in.numbers(gmm.k);
  gmm.means = in.numbers(gmm.k * gmm.d);
  gmm.icf = in.numbers(gmm.k * gmm.icf_size());
  gmm.x = in.numbers((replicate_point ? 1 : gmm.n) * gmm.d);
  if (replicate_point) {
    const Numbers one = gmm.x;
    for (std::int64_t i = 1; i < gmm.n; ++i) gmm.x.insert(gmm.x.end(), one.begin(), one.end());
  }
  gmm.gamma = in.number(), gmm.m = in.integer();
  in.expect_end();
  return gmm;
}

void Ba::replicate() {
  const auto repeat = [](Numbers& row, std::int64_t count) {
    const Numbers one = row;
    for (std::int64_t i = 1; i < count; ++i) row.insert(row.end(), one.begin(), one.end());
  };
  repeat(cameras, n), repeat(points, m), repeat(weights, p), repeat(features, p);
  for (std::int64_t i = 0; i < p; ++i) {
    camera_of.push_back(static_cast<int>(i % n));
    point_of.push_back(static_cast<int>(i % m));
  }
}

Ba read_ba(const fs::path& file) {
  Reader in(file);
  Ba ba;
  ba.n = in.integer(1), ba.m = in.integer(1), ba.p = in.integer(1);
  ba.cameras = in.numbers(kCameraParameters);
  ba.points = in.numbers(3);
  ba.weights = in.numbers(1);
  ba.features = in.numbers(2);
  in.expect_end();
  ba.replicate();
  return ba;
}

void check(const Hand& hand, const std::string& where) {
  const auto expect = [&](bool right, const char* what) {
    if (!right) throw std::runtime_error(fmt::format("{}: {}", where, what));
  };
  const auto bones = static_cast<std::size_t>(hand.bones()), vertices = static_cast<std::size_t>(hand.vertices()),
             points = hand.correspondences.size();
  const std::size_t last_posed = 4 * kFingers;
  expect(bones > last_posed, "a hand has a wrist and five fingers of four bones, in this order");
  expect(hand.base_relatives.size() == 12 * bones && hand.inverse_absolutes.size() == 12 * bones,
         "every bone has two affine maps");
  expect(hand.weights.size() == vertices * bones, "every vertex has a weight for each bone");
  expect(hand.theta.size() == static_cast<std::size_t>(kThetas), "26 parameters are expected");
  expect(hand.points.size() == 3 * points, "every point has three coordinates");
  expect(hand.us.empty() || hand.us.size() == 2 * points, "every point has two barycentric coordinates");
  expect(hand.triangles.size() % 3 == 0, "a triangle has three vertices");
  for (std::size_t bone = 0; bone < bones; ++bone)
    expect(hand.parents[bone] >= -1 && hand.parents[bone] < static_cast<int>(bone), "a bone comes after its parent");
  for (int vertex : hand.triangles)
    expect(vertex >= 0 && vertex < static_cast<int>(vertices), "a triangle names a vertex that is not there");
  const std::size_t targets = hand.complicated() ? hand.triangles.size() / 3 : vertices;
  for (int target : hand.correspondences)
    expect(target >= 0 && target < static_cast<int>(targets), "a point belongs to what is not there");
}

Hand read_hand(const fs::path& file, bool complicated) {
  Hand hand;
  read_model(file.parent_path() / "model", hand);
  Reader in(file);
  const std::int64_t points = in.integer(1), thetas = in.integer();
  for (std::int64_t i = 0; i < points; ++i) {
    hand.correspondences.push_back(static_cast<int>(in.integer()));
    const Numbers point = in.numbers(3);
    hand.points.insert(hand.points.end(), point.begin(), point.end());
  }
  if (complicated) hand.us = in.numbers(2 * points);
  hand.theta = in.numbers(thetas);
  in.expect_end();
  check(hand, file.string());
  return hand;
}

Lstm read_lstm(const fs::path& file) {
  Reader in(file);
  Lstm lstm;
  lstm.l = in.integer(1), lstm.c = in.integer(2), lstm.b = in.integer(1);
  lstm.main = in.numbers(lstm.l * 8 * lstm.b);
  lstm.extra = in.numbers(3 * lstm.b);
  lstm.state = in.numbers(lstm.l * 2 * lstm.b);
  lstm.sequence = in.numbers(lstm.c * lstm.b);
  in.expect_end();
  return lstm;
}

}  // namespace adbench
