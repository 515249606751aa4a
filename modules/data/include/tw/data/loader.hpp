// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/base/option.hpp>
#include <tw/data/augmentation.hpp>
#include <tw/data/dataset.hpp>
#include <tw/data/distributed_sampler.hpp>

namespace tw {

struct LoaderOptions {
  static constexpr int max_workers = 256;

  /// Samples of a step on all ranks together.
  int64_t global_batch = 64;
  /// Threads that make batches ahead; with 0, next() makes them; at most max_workers. Each keeps to one thread inside LibTorch.
  int workers = 1;
  /// Batches in the making or ready, by all workers together. What is not handed out yet takes memory.
  int prefetch = 2;
  /// Applied to the inputs of every sample; empty: none.
  Augmentation augmentation = {};
  /// Of the augmentation.
  uint64_t seed = 0;
  /// Where next() hands batches out. To an accelerator whoever makes a batch sends it, through pinned memory and in a stream of the loader's own:
  /// with workers, ahead of its use.
  c10::Device device = c10::Device(c10::kCPU);

  /// @throws ContractError naming the field that is wrong.
  void validate() const;
};
void visit(LoaderOptions& options, OptionVisitor& visitor);

/// Makes the batches of this rank's share of each epoch, in an order and with a content that do not depend on the number of workers. For one
/// thread at a time.
class Loader {
 public:
  /// @param dataset kept by reference, and used by the workers; @param sampler of this rank, a copy.
  /// @throws ContractError for a wrong option, and for a global batch that a sampler which drops or pads cannot share evenly.
  Loader(const Dataset& dataset, DistributedSampler sampler, LoaderOptions options = {});
  /// Waits for the batches in the making, no longer.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch, or goes on with one after `consumed` samples, see DistributedSampler::resume(). Batches made ahead are dropped.
  void begin_epoch(int64_t epoch, int64_t consumed = 0, std::optional<int> dealt_by = std::nullopt);
  /// The next batch, of global_batch / ranks samples, one more or one less; nothing at the end of the epoch. On an accelerator it is for the current
  /// stream, and the host does not wait for it. All ranks get equally many batches;
  /// a batch is empty where no sample is left for this rank.
  /// @throws whatever the data set or the augmentation threw while making this batch; and again, until an epoch is begun.
  std::optional<Batch> next();

  /// Batches in a whole epoch.
  int64_t steps() const;
  /// Samples of the epoch that all ranks together have got from next(); what is made ahead does not count. The position to resume from.
  int64_t consumed() const noexcept;
  /// consumed() at the end of the epoch that was begun last.
  int64_t end() const noexcept;
  /// Time that next() has spent without a batch to hand out, since construction.
  Seconds waited() const noexcept;

 private:
  class WorkerPool;
  std::unique_ptr<WorkerPool> workers_;
};

}  // namespace tw
