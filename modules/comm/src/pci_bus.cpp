// SPDX-License-Identifier: Apache-2.0
#include "pci_bus.hpp"

#include <dlfcn.h>

#include <array>
#include <tw/base/hash.hpp>

#include "devices_here.hpp"

namespace tw {

std::string pci_bus_of(c10::Device device) {
  using GetBusId = int (*)(char*, int, int);
  const auto get_bus_id = reinterpret_cast<GetBusId>(dlsym(RTLD_DEFAULT, (kind_of(device.type()) + "DeviceGetPCIBusId").c_str()));
  std::array<char, 64> bus{};
  const bool known = get_bus_id != nullptr && get_bus_id(bus.data(), static_cast<int>(bus.size()), device.index()) == 0;
  return known ? bus.data() : "";
}

uint64_t identity_of(c10::Device device) {
  const std::string bus = pci_bus_of(device);
  return bus.empty() ? static_cast<uint64_t>(device.index()) : content_hash(bus);
}

}  // namespace tw
