#include "examples/gallery/picture.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

namespace gallery {
namespace {

void append_number(std::string& bytes, std::uint64_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
}

/// Length, name, content, and a checksum of the latter two.
void append_chunk(std::string& file, const std::string& name, const std::string& content) {
  append_number(file, content.size());
  const std::string named = name + content;
  file += named;
  append_number(file, crc32(0, reinterpret_cast<const Bytef*>(named.data()), static_cast<uInt>(named.size())));
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION) != Z_OK)
    throw std::runtime_error("a picture cannot be compressed");
  out.resize(size);
  return out;
}

}  // namespace

Colour mixed(Colour from, Colour to, double share) {
  const double s = std::clamp(share, 0.0, 1.0);
  const auto mix = [s](int a, int b) { return static_cast<std::uint8_t>(std::lround(a + s * (b - a))); };
  return {mix(from.red, to.red), mix(from.green, to.green), mix(from.blue, to.blue)};
}

Colour heat_colour(double value) {
  const auto part = [value](double from) {
    return static_cast<std::uint8_t>(std::lround(255 * std::clamp(3 * value - from, 0.0, 1.0)));
  };
  return {part(0), part(1), part(2)};
}

Picture::Picture(std::int64_t width, std::int64_t height, Colour background)
    : width_(width), height_(height), pixels_(static_cast<std::size_t>(width * height), background) {}

Picture::Picture(std::int64_t width, std::int64_t height, std::int64_t scale,
                 const std::function<Colour(std::int64_t, std::int64_t)>& colour)
    : Picture(width * scale, height * scale, Colour{}) {
  for (std::int64_t y = 0; y < height_; ++y)
    for (std::int64_t x = 0; x < width_; ++x) at(x, y) = colour(y / scale, x / scale);
}

void Picture::dot(double x, double y, double radius, Colour colour) {
  const auto within = [](double v, std::int64_t end) { return std::clamp(static_cast<std::int64_t>(v), {}, end); };
  for (std::int64_t j = within(y - radius - 1, height_); j < within(y + radius + 2, height_); ++j)
    for (std::int64_t i = within(x - radius - 1, width_); i < within(x + radius + 2, width_); ++i) {
      const double away = std::hypot(static_cast<double>(i) + 0.5 - x, static_cast<double>(j) + 0.5 - y);
      at(i, j) = mixed(at(i, j), colour, radius + 0.5 - away);
    }
}

std::string Picture::rows(bool differences) const {
  std::string bytes;
  for (std::size_t i = 0, width = static_cast<std::size_t>(width_); i < pixels_.size(); ++i) {
    if (i % width == 0) bytes += differences ? '\2' : '\0';  // the filter of this row
    const Colour here = pixels_[i], above = differences && i >= width ? pixels_[i - width] : Colour{0, 0, 0};
    for (const auto part : {&Colour::red, &Colour::green, &Colour::blue})
      bytes += static_cast<char>(here.*part - above.*part);
  }
  return bytes;
}

void Picture::save(const std::string& path) const {
  std::string header, file = "\x89PNG\r\n\x1a\n";
  append_number(header, static_cast<std::uint64_t>(width_));
  append_number(header, static_cast<std::uint64_t>(height_));
  header += {8, 2, 0, 0, 0};  // bytes of red, green and blue; no interlacing
  const std::string plain = compressed(rows(false)), differences = compressed(rows(true));
  append_chunk(file, "IHDR", header);
  append_chunk(file, "IDAT", plain.size() < differences.size() ? plain : differences);
  append_chunk(file, "IEND", "");
  std::ofstream out(path, std::ios::binary);
  if (!(out << file << std::flush)) throw std::runtime_error("cannot write '" + path + "'");
}

}  // namespace gallery
