#include "tests/readme/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace loopgrad::test {
namespace {

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes.at(i));
  return number;
}

const Bytef* data_of(const std::string& bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); }

/// The content of the chunk of this name that begins here, behind which `at` is then.
std::string chunk(const std::string& file, const std::string& name, std::size_t& at) {
  const std::size_t size = number_at(file, at);
  const std::string named = file.substr(at + 4, 4 + size);
  if (named.substr(0, 4) != name) throw std::runtime_error("no " + name);
  if (number_at(file, at + 8 + size) != crc32(0, data_of(named), static_cast<uInt>(named.size())))
    throw std::runtime_error(name + " has another checksum");
  at += 12 + size;
  return named.substr(4);
}

Png decoded(const std::string& file) {
  std::size_t at = 8;
  if (file.substr(0, at) != "\x89PNG\r\n\x1a\n") throw std::runtime_error("no PNG file");
  const std::string header = chunk(file, "IHDR", at), packed = chunk(file, "IDAT", at);
  if (header.substr(8) != std::string("\x08\x02\0\0\0", 5)) throw std::runtime_error("another kind of PNG");
  if (!chunk(file, "IEND", at).empty() || at != file.size()) throw std::runtime_error("more than a picture");
  Png png{number_at(header, 0), number_at(header, 4), ""};
  const std::size_t row = 3 * std::size_t{png.width};
  std::string rows(png.height * (row + 1), '\0');
  uLongf size = rows.size();
  if (uncompress(reinterpret_cast<Bytef*>(rows.data()), &size, data_of(packed), packed.size()) != Z_OK ||
      size != rows.size())
    throw std::runtime_error("its pixels cannot be unpacked");
  for (std::size_t y = 0; y < png.height; ++y) {
    const char filter = rows[y * (row + 1)];
    if (filter != 0 && filter != 2) throw std::runtime_error("another filter");
    for (std::size_t x = 0; x < row; ++x) {
      const char above = filter == 2 && y > 0 ? png.bytes[(y - 1) * row + x] : '\0';
      png.bytes += static_cast<char>(rows[y * (row + 1) + 1 + x] + above);
    }
  }
  return png;
}

}  // namespace

Png read_png(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  try {
    return decoded({std::istreambuf_iterator<char>(in), {}});
  } catch (const std::exception& error) {
    ADD_FAILURE() << file << ": " << error.what();
    return {};
  }
}

double difference(const Png& a, const Png& b) {
  if (a.bytes.empty() || a.width != b.width || a.height != b.height) return 255;
  double sum = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i)
    sum += std::abs(static_cast<unsigned char>(a.bytes[i]) - static_cast<unsigned char>(b.bytes[i]));
  return sum / static_cast<double>(a.bytes.size());
}

}  // namespace loopgrad::test
