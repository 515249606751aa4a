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
  /// Number of complete checkpoints to keep; older ones are removed once a new one is complete.
  int64_t keep = 2;
  /// Whether to write in the background. Otherwise save() returns when the checkpoint is complete.
  bool background = true;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(CheckpointOptions& options, OptionVisitor& visitor);

/// The checkpoints of a run: a folder with one subfolder per step. Any number of ranks can read them.
///
///     directory/step_00000042/index.json                 name, shape, kind and pieces of every tensor; sizes and checksums
///     directory/step_00000042/rank_0000.safetensors ...  the pieces that each rank wrote
///
/// How a checkpoint is saved:
///   a. save() copies this rank's data into a separate buffer, and the program continues.
///   b. A thread on each rank writes the buffer to step_00000042.partial/ and syncs it to disk. The thread makes no MPI calls.
///   c. The ranks exchange sizes, checksums and failures by a non-blocking all-gather on a separate communicator.
///   d. If all succeeded, rank 0's thread adds the index, renames the folder, and removes older checkpoints.
///   e. Rank 0 sends the result of d to all ranks, again without blocking. After a failure in any step, every rank's next poll(), wait() or save()
///      throws.
/// Steps c to e progress whenever this rank calls poll() or waits for any communication. If a job is killed, complete checkpoints stay intact; the
/// unfinished one is removed when the next CheckpointStore is constructed on the folder.
///
/// All ranks write to the folder, so it must be on a file system that all nodes share. One run at a time may use it: hold a DirectoryLock, because
/// the constructor removes what another run is writing.
class CheckpointStore {
 public:
  /// Creates the folder, and removes unfinished checkpoints of killed runs. Collective.
  /// @param directory if relative, it is resolved now: a later chdir() has no effect. @throws Error on every rank alike if the folder cannot be used;
  /// ContractError for wrong options, or options that differ between ranks.
  CheckpointStore(const Communicator& comm, std::filesystem::path directory, const CheckpointOptions& options = {});
  /// Stops writing. An incomplete checkpoint is dropped on all ranks; call wait() first to keep it.
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// The folder, as an absolute path.
  const std::filesystem::path& directory() const noexcept;

  /// Begins a checkpoint of `shards`, which may change once this returns. Waits for the previous checkpoint if it is incomplete. Replaces a
  /// checkpoint of the same step; checkpoints of later steps stay. Collective. Costs one copy of the bytes that this rank writes, into memory(),
  /// which the first call allocates. Tensors that several ranks hold (OnReshard::shard, replicate) are written once, divided among them. For a
  /// module's buffer that several ranks hold, such as a running mean, the first rank's values are saved.
  /// @param step at least 0. @param metadata any text, such as JSON; rank 0's is saved.
  /// @throws ContractError on every rank alike if the shards do not make up whole tensors; also the error of the previous checkpoint, as wait() does.
  void save(int64_t step, const std::vector<NamedShard>& shards, const std::string& metadata);
  /// Advances the save without waiting; call it regularly, such as at each step. Local.
  /// @throws Error with file and reason if saving failed. Every rank throws, each in its first call after the failure has reached it. Complete
  /// checkpoints are untouched, and a later save() begins a new one.
  void poll();
  /// Returns when the last save is complete. Collective. @throws Error as poll() does, on every rank alike. If poll() has thrown the error on some
  /// ranks only, wait() throws it on these, too.
  void wait();

  // The functions below may be called while a save is in flight. The save may remove an old checkpoint at any moment; call wait() first if that
  // matters.

  /// The steps of complete checkpoints, ascending; their files are not read. Collective.
  std::vector<int64_t> steps() const;
  /// Fills the tensors of `shards` from the checkpoint of `step`, saved on any number of ranks, and returns the checkpoint's metadata. See OnReshard.
  /// Collective. Reads the files twice, first for their checksums.
  /// @throws Error on every rank alike. If the checkpoint is damaged, the message names the missing or damaged files and the previous checkpoint. If
  /// it does not fit `shards`, the message names every tensor that is missing, extra, or has a different shape or dtype. In both cases no tensor has
  /// changed, unless a file failed after all checks, while tensors were being filled.
  std::string load(int64_t step, const std::vector<NamedShard>& shards) const;
  /// The step of the newest checkpoint whose files are complete and match their checksums; none if there is no such checkpoint. Rank 0 logs a warning
  /// of newer, damaged ones. Collective.
  std::optional<int64_t> newest_valid() const;
  /// The index of the checkpoint of `step`: its content without values. Collective. @throws Error on every rank alike if it is absent or damaged.
  CheckpointIndex index(int64_t step) const;
  /// Parts of the index: the tensors' names without aliases, and the metadata passed to save(). Collective. @throws Error as index() does.
  std::vector<std::string> names(int64_t step) const;
  std::string metadata(int64_t step) const;
  /// The buffer into which save() copies this rank's data; kept between saves. An undefined tensor before the first save().
  const at::Tensor& memory() const noexcept;
  /// Waits for the current save, then removes the complete checkpoints of steps in [begin, end). Collective. @throws Error on every rank alike, as
  /// wait() does, or if a checkpoint cannot be removed.
  void remove_steps(int64_t begin, int64_t end);
  /// The same for all complete checkpoints.
  void remove_all();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tw
