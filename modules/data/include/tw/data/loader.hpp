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

  /// Number of samples per step, over all ranks.
  int64_t global_batch = 64;
  /// Number of threads that prepare batches in advance, at most max_workers; with 0, next() makes each batch itself. Each worker uses one thread
  /// inside LibTorch.
  int workers = 1;
  /// Maximum number of batches in preparation or ready, over all workers; at least 1 with workers. Each batch occupies memory.
  int prefetch = 2;
  /// Applied to the inputs of every sample; empty: none.
  Augmentation augmentation = {};
  /// Seed of the augmentation.
  uint64_t seed = 0;
  /// Device on which next() returns batches. For an accelerator, the thread that makes a batch also copies it to the device, through pinned memory
  /// and in the loader's own stream. Workers do this before the batch is needed.
  c10::Device device = c10::Device(c10::kCPU);

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LoaderOptions& options, OptionVisitor& visitor);

/// Makes the batches of this rank's share of each epoch. Their order and content do not depend on the number of workers. Not thread-safe.
class Loader {
 public:
  /// @param dataset kept by reference, and used by the workers; @param sampler this rank's sampler, copied.
  /// @throws ContractError for a wrong option, or if the global batch is not a multiple of the number of ranks although the sampler has Uneven::drop
  /// or Uneven::pad.
  Loader(const Dataset& dataset, DistributedSampler sampler, LoaderOptions options = {});
  /// Waits only for batches in preparation; drops the others.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch, or resumes one after all ranks together have consumed `consumed` samples; see DistributedSampler::resume(). Prefetched batches
  /// are dropped.
  void begin_epoch(int64_t epoch, int64_t consumed = 0, std::optional<int> consuming_ranks = std::nullopt);
  /// Returns the next batch, of about global_batch / ranks samples; nothing at the end of the epoch. Waits until the batch has been made. For an
  /// accelerator, only the current stream, not the host, waits for the copy to the device. All ranks get the same number of batches; a batch is empty
  /// if no sample is left for this rank.
  /// @throws whatever the data set or the augmentation threw while making this batch; later calls throw it again until an epoch is begun.
  std::optional<Batch> next();

  /// Number of batches in a whole epoch.
  int64_t steps() const;
  /// Number of samples of the epoch that next() has returned on all ranks together, not counting prefetched ones: the position to resume from.
  int64_t consumed() const noexcept;
  /// consumed() at the end of the current epoch.
  int64_t end() const noexcept;
  /// Total time since construction that next() has waited for batches or, without workers, has made them.
  Seconds waited() const noexcept;

 private:
  class WorkerPool;
  std::unique_ptr<WorkerPool> workers_;
};

}  // namespace tw
