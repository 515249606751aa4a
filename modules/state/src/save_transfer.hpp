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

/// A rank's report on its part of a checkpoint; plain bytes.
struct Verdict {
  StoredFile file;
  std::array<char, 496> failure{};  ///< empty: none

  bool failed() const noexcept { return failure[0] != '\0'; }
  void set_failure(const std::string& text);
};

/// Result of a save.
struct SaveResult {
  std::string failure;
};

/// Input of a save.
struct SaveJob {
  std::filesystem::path directory;
  CheckpointIndex index;  ///< rank 0's, without its files
  int64_t keep = 0;
  const char* data = nullptr;  ///< this rank's file, as write_synced() expects it; must stay valid
  int64_t bytes = 0;
  std::function<void()> arrive = [] {};  ///< returns when all of `data` is available
};

/// Steps b to e of CheckpointStore: the writer's thread, an all-gather of verdicts, rank 0's commit, and a broadcast of its verdict. They are one
/// operation of the engine, so they complete even if nobody waits for them.
class SaveTransfer : public mpi::Transfer {
 public:
  /// Starts the writer's first job.
  SaveTransfer(const Communicator& comm, std::shared_ptr<Writer> writer, SaveJob job, std::shared_ptr<SaveResult> result);

  bool advance() override;

 private:
  enum class Phase { writing, gathering, committing, announcing };

  void begin_gathering();
  /// @return false if a rank failed, which ends the operation.
  bool begin_committing();
  void begin_announcing();

  Communicator comm_;
  std::shared_ptr<Writer> writer_;
  std::shared_ptr<SaveJob> job_;  // shared with the writer's thread
  std::shared_ptr<SaveResult> result_;
  Phase phase_ = Phase::writing;
  std::shared_ptr<StoredFile> written_;  // set by the writer's thread
  Verdict mine_;
  std::vector<Verdict> all_;
  std::vector<int64_t> sizes_;
  std::unique_ptr<mpi::Transfer> inner_;
};

}  // namespace tw
