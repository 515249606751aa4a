// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace tw {

/// The address of a device on its machine, such as "0000:3b:00.0", where CUDA's or HIP's run time is loaded to tell it; else empty.
std::string pci_bus_of(c10::Device device);

/// Tells the devices of a node apart, in whichever way processes number them; by the number alone where the address is not known.
uint64_t identity_of(c10::Device device);

}  // namespace tw
