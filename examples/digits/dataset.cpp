#include "examples/digits/dataset.h"

#include "tools/support/random.h"

#include <zlib.h>

#include <charconv>
#include <memory>
#include <stdexcept>
#include <utility>

namespace digits {
namespace {

using Line = std::vector<int>;

Line parse(const char* text, const std::string& where) {
  Line numbers;
  while (*text && *text != '\n' && *text != '\r') {
    int number = 0;
    const char* end = text;
    while (*end && *end != ',' && *end != '\n' && *end != '\r') ++end;
    auto [stop, error] = std::from_chars(text, end, number);
    if (error != std::errc{} || stop != end) throw std::runtime_error(where + ": not a whole number");
    numbers.push_back(number);
    text = *end == ',' ? end + 1 : end;
  }
  if (numbers.size() != kPixels + 1) throw std::runtime_error(where + ": expected 64 pixels and a label");
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] < 0 || numbers[i] > (i < kPixels ? 16 : 9)) throw std::runtime_error(where + ": value out of range");
  return numbers;
}

std::vector<Line> read(const std::string& path) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  std::vector<Line> lines;
  char buffer[1024];
  while (gzgets(file.get(), buffer, sizeof buffer))
    lines.push_back(parse(buffer, path + ":" + std::to_string(lines.size() + 1)));
  int error = Z_OK;
  const char* message = gzerror(file.get(), &error);
  if (error != Z_OK && error != Z_STREAM_END) throw std::runtime_error("cannot read '" + path + "': " + message);
  if (lines.size() < 10) throw std::runtime_error("'" + path + "' has fewer than 10 samples");
  return lines;
}

}  // namespace

Dataset load(const std::string& path, std::uint64_t seed) {
  std::vector<Line> lines = read(path);
  loopgrad::tools::Random random(seed);
  for (std::size_t i = lines.size(); i > 1; --i)
    std::swap(lines[i - 1], lines[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  Dataset data;
  const std::size_t test = lines.size() / 5;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Samples& part = i < test ? data.test : data.train;
    for (std::int64_t k = 0; k < kPixels; ++k)
      part.pixels.push_back(static_cast<float>(lines[i][static_cast<std::size_t>(k)]) / 16.0f);
    part.labels.push_back(lines[i][kPixels]);
  }
  return data;
}

}  // namespace digits
