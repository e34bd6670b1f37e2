#include "tools/cli/device_buffers.h"

namespace loopgrad::cli {

DeviceBuffers::DeviceBuffers(const Buffers& buffers, std::size_t programs) : host_(buffers) {
  for (std::size_t p = 0; p < programs; ++p)
    for (const auto& [name, view] : buffers.arguments(p))
      if (!arrays_.contains(name)) arrays_[name] = DeviceArray(view.type, view.shape);
}

void DeviceBuffers::upload() const {
  for (const auto& [name, array] : arrays_) array.upload(host_.at(name).data());
}

void DeviceBuffers::download() const {
  for (const auto& [name, array] : arrays_) array.download(host_.at(name).data());
}

void DeviceBuffers::download(const std::vector<std::string>& names) const {
  for (const std::string& name : names) arrays_.at(name).download(host_.at(name).data());
}

Arguments DeviceBuffers::arguments(std::size_t index) const {
  Arguments arguments;
  for (const auto& [name, view] : host_.arguments(index)) arguments[name] = arrays_.at(name).view();
  return arguments;
}

std::vector<View> DeviceBuffers::views(const std::vector<std::string>& names) const {
  std::vector<View> views;
  for (const std::string& name : names) views.push_back(arrays_.at(name).view());
  return views;
}

}  // namespace loopgrad::cli
