// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/option.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/state/index.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

struct CheckpointOptions {
  /// How many complete checkpoints stay; older ones go when a new one is complete.
  int64_t keep = 2;
  /// Write while the program goes on. Otherwise save() returns when the checkpoint is complete.
  bool background = true;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(CheckpointOptions& options, OptionVisitor& visitor);

/// The checkpoints of a run: a folder with one folder a step, read by any number of ranks.
///
///     directory/step_00000042/index.json                 every tensor's name, shape, kind and pieces; sizes and checksums; its own checksum
///     directory/step_00000042/rank_0000.safetensors ...  what each rank wrote
///
/// How a checkpoint comes about:
///   a. save() copies what this rank has to write into memory of its own, and the program goes on.
///   b. A thread of each rank writes that to step_00000042.partial/ and to the disk. It touches no MPI.
///   c. The ranks exchange sizes, checksums and failures by a non-blocking all-gather on a separate communicator.
///   d. If all succeeded, rank 0's thread adds the index, renames the folder, and removes older checkpoints.
///   e. Rank 0 sends the result to all ranks, again without blocking. Any failure is thrown on every rank by its next poll(), wait() or save().
/// Steps c to e go on whenever this rank calls poll() or waits for any communication. A job that is killed at any moment leaves complete checkpoints
/// alone; what it was writing is removed when the next store is made.
///
/// One run at a time may use a folder: see DirectoryLock. Leave tensors of other devices than the CPU to the caller.
class CheckpointStore {
 public:
  /// Makes the folder, and removes what killed runs left in it. Collective.
  /// @param directory relative to the present working directory; a later chdir() changes nothing.
  /// @throws Error on every rank alike when that is impossible.
  CheckpointStore(const Communicator& comm, std::filesystem::path directory, const CheckpointOptions& options = {});
  /// Ends the writing. A checkpoint that is not complete is dropped, on all ranks; wait() first to have it.
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Absolute.
  const std::filesystem::path& directory() const noexcept;

  /// Begins a checkpoint of `shards`; they may change once this returns. Waits for the one before it, if that is not complete. One of the same step
  /// is replaced; those of later steps stay. Collective. Costs one copy of the bytes that this rank writes, which is what several ranks hold shared
  /// among them; the first time also the making of memory for it. Of a buffer that several ranks hold, such as a running mean, the first rank's is
  /// saved.
  /// @param step at least 0. @param metadata any text, such as JSON; rank 0's counts.
  /// @throws ContractError on every rank alike when the shards do not make up tensors; what made the one before it fail, as
  ///         wait().
  void save(int64_t step, const std::vector<NamedShard>& shards, const std::string& metadata);
  /// Carries the saving on, without waiting; to be called every now and then, such as at each step.
  /// @throws Error with file and reason when saving failed: on every rank, each at its own next call. Complete checkpoints are untouched, and a
  ///         later save() starts again.
  void poll();
  /// Returns when the last save is complete. Collective. @throws Error as poll(), on every rank alike: also on those where poll() has thrown
  /// the same failure, unless it has on all.
  void wait();

  // These may be called while a save is in flight. It may remove an old checkpoint just then; wait() first where that matters.

  /// The steps of complete checkpoints, oldest first. Collective.
  std::vector<int64_t> steps() const;
  /// Fills the tensors of `shards` with the checkpoint of `step`, whatever ranks saved it, and returns its metadata. See OnReshard. Collective.
  /// @throws Error on every rank alike, before any tensor has changed: files that are absent or damaged, by name, with the checkpoint before them; or
  ///         every tensor that is missing, extra or misshapen.
  std::string load(int64_t step, const std::vector<NamedShard>& shards) const;
  /// The newest checkpoint whose files are all there and match their checksums. Damaged ones are reported by log_warning(). Collective.
  std::optional<int64_t> newest_valid() const;
  /// What the checkpoint of `step` holds, without its values. Collective. @throws Error on every rank alike where it is absent or damaged.
  CheckpointIndex index(int64_t step) const;
  /// The memory into which this rank copies what it writes; it stays. Undefined before the first save().
  const at::Tensor& memory() const noexcept;
  /// Removes all complete checkpoints, once what is being written is. Collective. @throws Error on every rank alike, as wait() or because
  /// they cannot be removed.
  void remove_all();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tw
