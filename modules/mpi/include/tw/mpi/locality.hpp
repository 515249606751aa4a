// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// Keeps the calling thread, and those that it makes from now on, on those of its cores that belong to the NUMA node of a PCI device: what they touch
/// first lies in that node's memory too. Nothing changes where the node is not known, or is the whole machine. Local.
/// @param bus the device's address, such as "0000:3b:00.0"
/// @return false where the thread may use none of those cores; it stays where it is
bool stay_near(const std::string& bus);

/// Cores that this thread may use; hardware threads of one core count once. At least 1. Local.
int cores_here();

}  // namespace tw
