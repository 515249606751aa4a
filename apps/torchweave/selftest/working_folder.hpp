// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/mpi/communicator.hpp>

namespace tw::tool::selftest {

/// A new folder for files of all ranks. Rank 0 makes it, and removes it with its content at the end.
class WorkingFolder {
 public:
  /// Collective. @param parent an existing folder. @throws Error on every rank alike
  WorkingFolder(const Communicator& comm, const std::filesystem::path& parent);

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  /// Removes its folder, also if the constructor of WorkingFolder throws.
  struct Remover {
    Remover() = default;
    Remover(const Remover&) = delete;
    Remover& operator=(const Remover&) = delete;
    ~Remover();
    std::filesystem::path folder;  // empty except on rank 0
  };

  Remover remover_;
  std::filesystem::path path_;
};

}  // namespace tw::tool::selftest
