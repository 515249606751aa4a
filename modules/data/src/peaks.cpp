// SPDX-License-Identifier: Apache-2.0
#include <tw/data/peaks.hpp>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <vector>

namespace tw {
namespace {

double peaks(double x, double y) {
  return 3 * (1 - x) * (1 - x) * std::exp(-x * x - (y + 1) * (y + 1)) - 10 * (x / 5 - x * x * x - std::pow(y, 5)) * std::exp(-x * x - y * y) -
         std::exp(-(x + 1) * (x + 1) - y * y) / 3;
}

}  // namespace

TensorDataset make_peaks(int64_t n, uint64_t seed) {
  constexpr int64_t classes = 5;
  TW_EXPECTS(n >= classes, "make_peaks needs at least one point for each of the 5 classes, got ", n);
  CounterRng random(seed);
  const auto coordinate = [&] { return 6.0 * random() / 4294967296.0 - 3; };
  const at::Tensor inputs = at::empty({n, 2}, at::kFloat);
  const at::Tensor targets = at::empty({n}, at::kLong);
  std::vector<double> heights;
  for (int64_t i = 0; i < n; ++i) {
    const double x = coordinate();
    const double y = coordinate();
    inputs.data_ptr<float>()[2 * i] = static_cast<float>(x);
    inputs.data_ptr<float>()[2 * i + 1] = static_cast<float>(y);
    heights.push_back(peaks(x, y));
  }
  // Quantiles of the height over the square's area: a fifth, two fifths, ... Computed on a grid, so that they do not depend on the points.
  constexpr int grid = 300;
  std::vector<double> all;
  for (int i = 0; i < grid; ++i) {
    for (int j = 0; j < grid; ++j) all.push_back(peaks(6.0 * (i + 0.5) / grid - 3, 6.0 * (j + 0.5) / grid - 3));
  }
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < n; ++i) {
    int64_t level = 0;
    while (level + 1 < classes && heights[static_cast<size_t>(i)] > all[static_cast<size_t>((level + 1) * grid * grid / classes)]) ++level;
    targets.data_ptr<int64_t>()[i] = level;
  }
  return {inputs, targets};
}

}  // namespace tw
