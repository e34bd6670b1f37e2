// Pictures of the gallery, and PNG files of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gallery {

struct Colour {
  std::uint8_t red = 255, green = 255, blue = 255;
};

inline constexpr Colour kPaper = {250, 248, 243}, kInk = {38, 70, 83}, kFlame = {214, 73, 51};

/// `from` at 0, `to` at 1, in between for what is in between.
Colour mixed(Colour from, Colour to, double share);

/// From black over red and yellow to white.
Colour heat_colour(double value);

/// Rows of pixels, the first one at the top.
class Picture {
 public:
  Picture(std::int64_t width, std::int64_t height, Colour background);

  /// A pixel for each place of a grid, `scale` pixels wide and high.
  Picture(std::int64_t width, std::int64_t height, std::int64_t scale,
          const std::function<Colour(std::int64_t row, std::int64_t column)>& colour);

  /// A disc with smooth edges; what is outside of the picture is left out.
  void dot(double x, double y, double radius, Colour colour);

  /// Throws std::runtime_error where the file cannot be written.
  void save(const std::string& path) const;

 private:
  /// The bytes of a PNG file, or the differences of each row to the one above, which may be compressed better.
  std::string rows(bool differences) const;
  Colour& at(std::int64_t x, std::int64_t y) { return pixels_[static_cast<std::size_t>(y * width_ + x)]; }

  std::int64_t width_, height_;
  std::vector<Colour> pixels_;
};

}  // namespace gallery
