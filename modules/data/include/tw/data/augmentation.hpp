// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tw/base/random.hpp>
#include <vector>

namespace tw {

/// Returns a randomly changed copy of one sample's inputs, with the same shape and dtype. It must draw from `random` only, which depends on seed,
/// epoch and the sample's number: the result then depends on neither ranks nor workers. Called from several threads at once; must not change
/// `sample`.
using Augmentation = std::function<at::Tensor(const at::Tensor& sample, CounterRng& random)>;

/// Shifts an image [..., height, width] by up to `pixels` in each direction, vertically and horizontally; pixels that enter at the border are `fill`.
/// @param pixels 0 or more; @param fill default: ImageDataset's black.
Augmentation random_shift(int64_t pixels, double fill = -1.0);

/// Mirrors an image [..., height, width] left to right, with probability 1/2.
Augmentation random_horizontal_flip();

/// Applies all `augmentations` in order.
Augmentation compose(std::vector<Augmentation> augmentations);

}  // namespace tw
