// SPDX-License-Identifier: Apache-2.0
#include "pci_bus.hpp"

#include <dlfcn.h>

#include <array>

#include "devices_here.hpp"

namespace tw {

std::string pci_bus_of(c10::Device device) {
  using GetBusId = int (*)(char*, int, int);
  const auto get_bus_id = reinterpret_cast<GetBusId>(dlsym(RTLD_DEFAULT, (kind_of(device.type()) + "DeviceGetPCIBusId").c_str()));
  std::array<char, 64> bus{};
  const bool known = get_bus_id != nullptr && get_bus_id(bus.data(), static_cast<int>(bus.size()), device.index()) == 0;
  return known ? bus.data() : "";
}

}  // namespace tw
