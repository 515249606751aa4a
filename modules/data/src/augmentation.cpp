// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/data/augmentation.hpp>

#include <ATen/ops/flip.h>
#include <ATen/ops/full_like.h>

#include <algorithm>

namespace tw {
namespace {

// In one dimension, what remains of `length` elements shifted by `shift`: old [from, from + count) becomes new [to, to + count).
struct Overlap {
  int64_t from;
  int64_t to;
  int64_t count;

  Overlap(int64_t length, int64_t shift)
      : from(std::max<int64_t>(-shift, 0)), to(std::max<int64_t>(shift, 0)), count(std::max<int64_t>(length - std::abs(shift), 0)) {}
};

int64_t draw_shift(int64_t pixels, CounterRng& random) { return int64_t{random.below(static_cast<uint32_t>(2 * pixels + 1))} - pixels; }

}  // namespace

Augmentation random_shift(int64_t pixels, double fill) {
  TW_EXPECTS(pixels >= 0 && pixels < (int64_t{1} << 30), "random_shift: the shift must be at least 0 and below 2^30, got ", pixels, " pixels");
  return [=](const at::Tensor& sample, CounterRng& random) {
    TW_EXPECTS(sample.dim() >= 2, "random_shift needs images [..., height, width], got ", sample.dim(), " dimensions");
    const int64_t down = draw_shift(pixels, random);
    const int64_t across = draw_shift(pixels, random);
    at::Tensor moved = at::full_like(sample, fill);
    const Overlap rows(sample.size(-2), down);
    const Overlap columns(sample.size(-1), across);
    if (rows.count == 0 || columns.count == 0) return moved;
    moved.narrow(-2, rows.to, rows.count)
        .narrow(-1, columns.to, columns.count)
        .copy_(sample.narrow(-2, rows.from, rows.count).narrow(-1, columns.from, columns.count));
    return moved;
  };
}

Augmentation random_horizontal_flip() {
  return [](const at::Tensor& sample, CounterRng& random) { return random.below(2) == 0 ? sample : at::flip(sample, {-1}); };
}

Augmentation compose(std::vector<Augmentation> augmentations) {
  for (const auto& augmentation : augmentations) TW_EXPECTS(augmentation != nullptr, "compose: one of the augmentations is an empty function");
  return [all = std::move(augmentations)](const at::Tensor& sample, CounterRng& random) {
    at::Tensor result = sample;
    for (const auto& augmentation : all) result = augmentation(result, random);
    return result;
  };
}

}  // namespace tw
