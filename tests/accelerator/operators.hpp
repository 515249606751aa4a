// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// Registers all operators for the simulated devices with LibTorch's dispatcher: queued in the stream, and computed later by the CPU's operators.
void register_operators();

}  // namespace tw::testing::accelerator
