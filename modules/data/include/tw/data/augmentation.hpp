// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tw/base/random.hpp>
#include <vector>

namespace tw {

/// Changes one sample's inputs at random: [...] in, shape and dtype as before out. Draws from `random` alone, which depends on seed, epoch and the
/// sample's number, so that the result depends on neither ranks nor workers. Called from several threads at once; `sample` must not be changed.
using Augmentation = std::function<at::Tensor(const at::Tensor& sample, CounterRng& random)>;

/// Moves an image [..., height, width] by up to `pixels` to each side, independently down and across; `fill` comes in at the border.
/// @param pixels 0 or more; @param fill black, as ImageDataset has it.
Augmentation random_shift(int64_t pixels, double fill = -1.0);

/// Mirrors an image [..., height, width] left to right, every other time.
Augmentation random_horizontal_flip();

/// One after the other, in that order.
Augmentation compose(std::vector<Augmentation> augmentations);

}  // namespace tw
