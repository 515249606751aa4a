// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/state/index.hpp>
#include <vector>

#include "writer.hpp"

namespace tw {

/// What a rank tells the others of its part of a checkpoint; plain bytes.
struct Verdict {
  StoredFile file;
  std::array<char, 496> failure{};  ///< empty: none

  bool failed() const noexcept { return failure[0] != '\0'; }
  void set_failure(const std::string& text);
};

/// What a save leaves behind.
struct SaveResult {
  std::string failure;
};

/// What a save needs to know.
struct SaveJob {
  std::filesystem::path directory;
  CheckpointIndex index;  ///< of rank 0: without its files
  int64_t keep = 0;
  const char* data = nullptr;  ///< the file of this rank, as write_synced() wants it; must stay
  int64_t bytes = 0;
  std::function<void()> arrive = [] {};  ///< returns when all of `data` is there
};

/// Steps b to e of CheckpointStore as one operation of the engine, so that it ends as others do, also when nobody waits for it: the writer's thread,
/// then an all-gather of verdicts, then rank 0's commit, then a broadcast of its verdict.
class SaveTransfer : public mpi::Transfer {
 public:
  /// Gives `writer` its first job.
  SaveTransfer(const Communicator& comm, std::shared_ptr<Writer> writer, SaveJob job, std::shared_ptr<SaveResult> result);

  bool advance() override;

 private:
  enum class Phase { writing, gathering, committing, announcing };

  void begin_gathering();
  /// False where somebody failed, and that is the end.
  bool begin_committing();
  void begin_announcing();

  Communicator comm_;
  std::shared_ptr<Writer> writer_;
  std::shared_ptr<SaveJob> job_;  // shared with the writer's thread
  std::shared_ptr<SaveResult> result_;
  Phase phase_ = Phase::writing;
  std::shared_ptr<StoredFile> written_;  // by the writer's thread
  Verdict mine_;
  std::vector<Verdict> all_;
  std::vector<int64_t> sizes_;
  std::unique_ptr<mpi::Transfer> inner_;
};

}  // namespace tw
