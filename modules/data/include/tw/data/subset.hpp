// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/data/dataset.hpp>
#include <vector>

namespace tw {

/// A selection of a data set's samples, in any order.
class Subset : public Dataset {
 public:
  /// @param indices the selected samples of `whole`. @throws ContractError for an index outside `whole`
  Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> indices);

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Batch batch(std::span<const int64_t> indices) const override;
  /// The tensors of the whole data set, and the indices; empty if the data set is not in memory.
  std::vector<at::Tensor> memory() const override;

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<int64_t> indices_;
};

/// The numbers 0 to n - 1 split into two parts, each ascending.
struct Holdout {
  std::vector<int64_t> kept;
  std::vector<int64_t> held_out;
};

/// Holds out `count` of the numbers 0 to samples - 1, drawn at random. Equal arguments return equal results. @param count 0 to `samples`
Holdout hold_out(int64_t samples, int64_t count, uint64_t seed);

/// Stratified hold_out(): the number of samples held out of a class is proportional to the size of the class, rounded so that the sum is `count`.
/// @param classes integers [n], one for each sample
Holdout hold_out(const at::Tensor& classes, int64_t count, uint64_t seed);

}  // namespace tw
