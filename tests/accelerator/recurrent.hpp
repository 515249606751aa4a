// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch {
class Library;
}

namespace tw::testing::accelerator {

/// The cells of recurrent layers, which LibTorch asks an accelerator for as one operator each, and the CPU as several.
void register_recurrent_cells(torch::Library& aten);

}  // namespace tw::testing::accelerator
