// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// Binds the calling thread, and threads that it creates later, to those cores that it may use and that belong to the NUMA node of a PCI device.
/// Memory that these threads touch first is then also on that node. Does nothing if the node is unknown or is the whole machine. Local.
/// @param bus the device's address, such as "0000:3b:00.0"
/// @return false if the thread may use no core of that node; the thread's binding is then unchanged
bool stay_near(const std::string& bus);

/// The number of cores that this thread may use; hardware threads of one core count once. At least 1. Local.
int cores_here();

}  // namespace tw
