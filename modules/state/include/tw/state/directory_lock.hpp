// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Reserves a folder for one run at a time. Rank 0 locks the file `directory`/lock with flock(). The lock is released when this object is destroyed
/// or the process ends, even if it crashes.
class DirectoryLock {
 public:
  /// Creates the folder if it is missing. Collective.
  /// @throws Error on every rank alike, naming the process that holds the lock, or the reason why the folder cannot be locked.
  DirectoryLock(const Communicator& comm, const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

/// Whether a run holds the folder's lock, on this machine or on another one with which the file system shares locks.
bool is_in_use(const std::filesystem::path& directory);

}  // namespace tw
