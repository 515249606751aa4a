// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace tw {

/// The number of devices of a kind that this process sees.
int devices_here(c10::DeviceType type);

/// LibTorch's name for a kind of device, such as "cuda".
inline std::string kind_of(c10::DeviceType type) { return c10::DeviceTypeName(type, /*lower_case=*/true); }

/// The accelerator kind of this LibTorch if it has one, else "cpu". A CUDA build reports CUDA even on a machine without a device.
std::string accelerator_here();

}  // namespace tw
