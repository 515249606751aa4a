// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Keeps a folder for one run at a time, by rank 0's lock (flock) on `directory`/lock. Gone with this object, and with the process however it ends.
class DirectoryLock {
 public:
  /// Makes the folder where it is missing. Collective.
  /// @throws Error on every rank alike, naming the process that has the folder, or why it cannot be locked.
  DirectoryLock(const Communicator& comm, const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

/// Whether a run on this machine, or on another one that shares its locks, has the folder now.
bool is_in_use(const std::filesystem::path& directory);

}  // namespace tw
