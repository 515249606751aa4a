// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/clock.hpp>
#include <tw/base/option.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

class PeriodicAverage;
class WrappedModelCheck;

struct LocalSgdOptions {
  int64_t period = 50;           ///< steps between averages; at least 1
  bool average_buffers = false;  ///< average floating-point buffers (such as running means) together with the parameters

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LocalSgdOptions& options, OptionVisitor& visitor);

/// Local SGD: every rank trains on its own, with its own optimizer, and every `period` steps the ranks' parameters are replaced by their mean. It
/// sends 1 / period of the bytes that DataParallel sends, but replicas differ between averages.
///
/// ```
/// LocalSgd local(comm, *model, {.period = 20});
/// for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); local.step(); }
/// local.finish();
/// ```
/// Construction copies rank 0's parameters and buffers to every rank. Every rank must call step() the same number of times; see join() for uneven
/// inputs. The optimizer's state (momentum) is not averaged. With period 1 and plain SGD, LocalSgd equals DataParallel with Reduction::mean. Ref:
/// Stich 2019, "Local SGD converges fast and communicates little".
class LocalSgd {
 public:
  /// Collective. @param comm duplicated. @param module the parameters that require a gradient are averaged; `module` must keep them during this
  /// object's lifetime.
  /// @throws ContractError on every rank. It names the ranks and the parameter or option that differs, or the wrong field of `options`.
  LocalSgd(const Communicator& comm, const torch::nn::Module& module, const LocalSgdOptions& options = {});

  /// The same for a list of tensors. Those that require no gradient count as buffers.
  LocalSgd(const Communicator& comm, const std::vector<NamedTensor>& tensors, const LocalSgdOptions& options = {});

  ~LocalSgd();
  LocalSgd(const LocalSgd&) = delete;
  LocalSgd& operator=(const LocalSgd&) = delete;

  /// Call this after each step of the optimizer. After `period` steps it averages, which is collective: one all-reduce per bucket of tensors of one
  /// dtype (default BucketOptions). The parameters must be the same as at construction: a ContractError names one that was converted since, or that
  /// was frozen then and is trained now.
  /// @return whether it averaged
  bool step();
  /// Averages if step() was called after the last average. Collective. @return whether it averaged
  bool finish();

  /// The number of steps since the last average, for checkpoints. The shard shares this object's memory, so loading into it restores the number. The
  /// parameters are not included: save them with OnReshard::mean, which restores each rank's values, or their mean if the number of ranks differs.
  /// Construct this object before loading.
  std::vector<NamedShard> shards() const;

  /// Bytes of this rank's buckets for averaging.
  int64_t buffer_bytes() const noexcept;
  /// Bytes that this rank has contributed to all-reduces so far.
  int64_t bytes_communicated() const noexcept;
  /// Total time that this rank spent only on communication.
  Seconds exposed_time() const noexcept;

 private:
  void average();

  std::unique_ptr<WrappedModelCheck> wrapped_;
  std::vector<NamedTensor> averaged_;
  std::unique_ptr<PeriodicAverage> average_;
};

}  // namespace tw
