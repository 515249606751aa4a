// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch {
class Library;
}

namespace tw::testing::accelerator {

/// The cells of recurrent layers. LibTorch calls one operator per cell on an accelerator, and several on the CPU.
void register_recurrent_cells(torch::Library& aten);

}  // namespace tw::testing::accelerator
