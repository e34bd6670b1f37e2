// The four problems of ADBench as data, with the layouts of its text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adbench {

using Numbers = std::vector<double>;
using Integers = std::vector<int>;

constexpr std::int64_t kCameraParameters = 11, kThetas = 26, kFingers = 5;

/// A mixture of k Gaussians for n points of dimension d, with a Wishart prior (gamma, m).
struct Gmm {
  std::int64_t d = 0, k = 0, n = 0;
  Numbers alphas;  // [k]
  Numbers means;   // [k, d]
  Numbers icf;     // [k, d(d+1)/2]: logarithms of the diagonal, then what is below it column by column
  Numbers x;       // [n, d]
  double gamma = 0;
  std::int64_t m = 0;
  std::int64_t icf_size() const { return d * (d + 1) / 2; }
};

/// Bundle adjustment of n cameras, m points and p observations.
struct Ba {
  std::int64_t n = 0, m = 0, p = 0;
  Numbers cameras;   // [n, 11]: axis of rotation 3, centre 3, focal length, principal point 2, radial distortion 2
  Numbers points;    // [m, 3]
  Numbers weights;   // [p]
  Numbers features;  // [p, 2]
  Integers camera_of, point_of;  // [p]
  /// All cameras, points, weights and features are the first ones; observation i sees point i mod m by camera i mod n.
  void replicate();
};

/// Hand tracking: bones, skin, and measured points that belong to vertices or, with `us`, to places in triangles.
struct Hand {
  std::vector<std::string> bone_names;
  Integers parents;           // [bones], -1 for a root
  Numbers base_relatives;     // [bones, 3, 4], affine maps without their last row
  Numbers inverse_absolutes;  // [bones, 3, 4]
  Numbers base_positions;     // [vertices, 3]
  Numbers weights;            // [vertices, bones]
  Integers triangles;         // [triangles, 3]
  bool mirrored = false;
  Integers correspondences;  // [points], vertices, or triangles where there are us
  Numbers points;            // [points, 3]
  Numbers us;                // [points, 2], or none: then the problem is the simple one
  Numbers theta;             // [26]
  bool complicated() const { return !us.empty(); }
  std::int64_t bones() const { return static_cast<std::int64_t>(parents.size()); }
  std::int64_t vertices() const { return static_cast<std::int64_t>(base_positions.size()) / 3; }
  std::int64_t point_count() const { return static_cast<std::int64_t>(correspondences.size()); }
};

/// A network of l layers of long short-term memory with b diagonal cells over c characters of b bits.
struct Lstm {
  std::int64_t l = 0, c = 0, b = 0;
  Numbers main;      // [l, 2, 4, b]: weights and biases of forget, in, out gate and change
  Numbers extra;     // [3, b]: weights in, weights out, bias out
  Numbers state;     // [l, 2, b]: hidden, cell
  Numbers sequence;  // [c, b]
};

/// Reads the files of ADBench. `replicate_point`: the file has one point, which stands for all n.
/// Throw std::runtime_error, naming the file and what is wrong in it.
Gmm read_gmm(const std::filesystem::path& file, bool replicate_point = false);
Ba read_ba(const std::filesystem::path& file);
/// The model is in the folder `model` beside the file.
Hand read_hand(const std::filesystem::path& file, bool complicated);
Lstm read_lstm(const std::filesystem::path& file);

/// Appends a matrix of 4 by 4 as one of 3 by 4. False where its last row is not 0 0 0 1.
bool append_affine(const Numbers& matrix, Numbers& to);

/// Throws std::runtime_error unless every index names something that there is, and lengths fit each other.
void check(const Hand& hand, const std::string& where);

}  // namespace adbench
