// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace tw {

/// How many devices of a kind this process sees.
int devices_here(c10::DeviceType type);

/// LibTorch's name for a kind of device, such as "cuda".
inline std::string kind_of(c10::DeviceType type) { return c10::DeviceTypeName(type, /*lower_case=*/true); }

/// The kind of accelerator that this LibTorch knows, where there is one; else "cpu". A build for CUDA knows CUDA also on a machine without.
std::string accelerator_here();

}  // namespace tw
