// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace tw {

/// The address of a device on its machine, such as "0000:3b:00.0"; empty unless the CUDA or HIP runtime is loaded.
std::string pci_bus_of(c10::Device device);

/// Distinguishes the devices of a node, however processes number them; falls back to the number if the address is unknown.
uint64_t identity_of(c10::Device device);

}  // namespace tw
