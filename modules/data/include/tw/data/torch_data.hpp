// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adapters to and from torch::data. <tw/data.hpp> does not include this header, because it includes much of LibTorch.
#include <torch/data/datasets/base.h>
#include <torch/data/example.h>

#include <memory>
#include <mutex>
#include <tw/base/contract.hpp>
#include <tw/data/dataset.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {

/// A tw::Dataset for use with LibTorch's loaders. They yield one Example<> per batch: `data` [n, ...] and `target` [n, ...].
class TorchBatches : public torch::data::datasets::BatchDataset<TorchBatches, torch::data::Example<>> {
 public:
  /// @param dataset kept by reference, also by copies of this object (LibTorch's loaders make a copy per thread).
  explicit TorchBatches(const Dataset& dataset) : dataset_(&dataset) {}

  torch::data::Example<> get_batch(c10::ArrayRef<size_t> indices) override {
    Batch batch = dataset_->batch(std::vector<int64_t>(indices.begin(), indices.end()));
    return {std::move(batch.inputs), std::move(batch.targets)};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(dataset_->size()); }

 private:
  const Dataset* dataset_;
};

/// A data set for LibTorch's loaders: `torch::data::make_data_loader(to_torch(dataset), DistributedSampler(...), 64)`.
/// @param dataset kept by reference.
inline TorchBatches to_torch(const Dataset& dataset) { return TorchBatches(dataset); }
TorchBatches to_torch(Dataset&& dataset) = delete;

/// A LibTorch data set as a tw::Dataset; see from_torch().
template <class Source>
class FromTorch : public Dataset {
 public:
  explicit FromTorch(Source source) : source_(std::make_unique<Guarded>(std::move(source))) {
    const auto size = source_->dataset.size();
    TW_EXPECTS(size.has_value(), "the torch::data data set does not report a size, so it cannot be divided among ranks");
    size_ = static_cast<int64_t>(*size);
  }

  int64_t size() const override { return size_; }

  Batch batch(std::span<const int64_t> indices) const override {
    for (const int64_t index : indices) TW_EXPECTS(index >= 0 && index < size_, "there is no sample ", index, "; the number of samples is ", size_);
    if (!indices.empty()) return ask({indices.begin(), indices.end()});
    if (size_ == 0) return {at::empty({0}), at::empty({0})};
    const Batch first = ask({0});  // for shape and dtype
    return {first.inputs.narrow(0, 0, 0), first.targets.narrow(0, 0, 0)};
  }

 private:
  struct Guarded {
    explicit Guarded(Source source) : dataset(std::move(source)) {}
    std::mutex mutex;
    Source dataset;
  };

  Batch ask(const std::vector<size_t>& indices) const {
    std::unique_lock lock(source_->mutex);
    auto examples = source_->dataset.get_batch(indices);
    lock.unlock();
    if constexpr (requires { examples.target; }) {
      return {std::move(examples.data), std::move(examples.target)};
    } else {
      std::vector<at::Tensor> inputs;
      std::vector<at::Tensor> targets;
      for (auto& example : examples) {
        inputs.push_back(std::move(example.data));
        targets.push_back(std::move(example.target));
      }
      return {at::stack(inputs), at::stack(targets)};
    }
  }

  std::unique_ptr<Guarded> source_;
  int64_t size_ = 0;
};

/// Wraps a map-style data set of torch::data, such as torch::data::datasets::MNIST, with or without `.map(...)`. Its get_batch(indices) may return
/// one Example<> per sample, which are then stacked, or one for all samples. get_batch() is not const and may not be thread-safe, so calls are
/// serialized.
template <class Source>
FromTorch<std::decay_t<Source>> from_torch(Source&& source) {
  return FromTorch<std::decay_t<Source>>(std::forward<Source>(source));
}

}  // namespace tw
