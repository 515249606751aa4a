// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// Teaches LibTorch's dispatcher all operators on the simulated devices: put into the stream, and computed by the CPU's when their turn comes.
void register_operators();

}  // namespace tw::testing::accelerator
