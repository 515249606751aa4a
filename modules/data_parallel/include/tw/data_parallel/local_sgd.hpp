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
  int64_t period = 50;           ///< steps from one average to the next; at least 1
  bool average_buffers = false;  ///< average floating-point buffers (such as running means) together with the parameters

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LocalSgdOptions& options, OptionVisitor& visitor);

/// Local SGD: every rank trains on its own, with its own optimizer, and every `period` steps the ranks' parameters are replaced by their mean. Sends
/// 1 / period of what DataParallel sends, for replicas that differ in between.
///
/// ```
/// LocalSgd local(comm, *model, {.period = 20});
/// for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); local.step(); }
/// local.finish();
/// ```
/// From its construction on every rank holds rank 0's parameters and buffers. Every rank calls step() equally often; see join() for uneven inputs.
/// The optimizer's own state (momentum) stays with each rank. With period 1 and plain SGD it is DataParallel with Reduction::mean. Ref: Stich 2019,
/// "Local SGD converges fast and communicates little".
class LocalSgd {
 public:
  /// Collective. @param comm duplicated. @param module its parameters that require a gradient are averaged; must keep them while this lives.
  /// @throws ContractError on every rank: naming ranks and parameter or option when they differ, or the wrong field of `options`.
  LocalSgd(const Communicator& comm, const torch::nn::Module& module, const LocalSgdOptions& options = {});

  /// The same for tensors from anywhere. Those that require no gradient count as buffers.
  LocalSgd(const Communicator& comm, const std::vector<NamedTensor>& tensors, const LocalSgdOptions& options = {});

  ~LocalSgd();
  LocalSgd(const LocalSgd&) = delete;
  LocalSgd& operator=(const LocalSgd&) = delete;

  /// To be called after the optimizer's step, with the parameters that there were from the beginning: a ContractError names one that was converted,
  /// or is trained and was not. Averages when `period` steps were made since the last average: one all-reduce per dtype and 25 MiB. Collective then.
  /// @return whether it averaged
  bool step();
  /// Averages unless the last step did. Collective. @return whether it averaged
  bool finish();

  /// The count of steps since the last average, for checkpoints; shares memory, so loading restores it. The parameters are the caller's: as
  /// OnReshard::mean the ranks' own values come back, or their mean at another number of ranks. Make this object first and load then.
  std::vector<NamedShard> shards() const;

  /// Bytes of the buffers that are kept for averages.
  int64_t buffer_bytes() const noexcept;
  /// Bytes that this rank gave to all-reduces so far.
  int64_t bytes_communicated() const noexcept;
  /// How long this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;

 private:
  void average();

  std::unique_ptr<WrappedModelCheck> wrapped_;
  std::vector<NamedTensor> averaged_;
  std::unique_ptr<PeriodicAverage> average_;
};

}  // namespace tw
