// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tw/base/random.hpp>
#include <vector>

namespace tw {

/// Returns a randomly changed copy of one sample's inputs, with the same shape and dtype; it may return `sample` itself if nothing changes. It must
/// draw random numbers only from `random`, which depends on the seed, the epoch and the sample's index. The result then depends on neither the ranks
/// nor the workers. It is called from several threads at once and must not change `sample`.
using Augmentation = std::function<at::Tensor(const at::Tensor& sample, CounterRng& random)>;

/// Shifts an image [..., height, width] vertically and horizontally, each by a random number of pixels from -`pixels` to `pixels`. Pixels that enter
/// at the border have the value `fill`. @param pixels at least 0, below 2^30; @param fill the default is ImageDataset's black.
Augmentation random_shift(int64_t pixels, double fill = -1.0);

/// Mirrors an image [..., height, width] left to right, with probability 1/2.
Augmentation random_horizontal_flip();

/// Applies all `augmentations` in order.
Augmentation compose(std::vector<Augmentation> augmentations);

}  // namespace tw
