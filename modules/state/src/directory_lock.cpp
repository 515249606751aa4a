// SPDX-License-Identifier: Apache-2.0
#include <tw/state/directory_lock.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/process.hpp>
#include <tw/comm/agreement.hpp>

namespace tw {
namespace {

std::string owner_here() { return concat("process ", ::getpid(), " on ", host_name()); }

std::string owner_in(int fd) {
  std::array<char, 512> text{};
  const ssize_t length = ::pread(fd, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "another process";
}

// Locks an open file. is_in_use() briefly holds a shared lock, so retry before failing. @return 0, or an errno
int take(int fd) {
  constexpr int patience_ms = 5000;
  for (int ms = 0;; ++ms) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
    const int code = errno;
    if (code != EWOULDBLOCK || ms == patience_ms || ::flock(fd, LOCK_SH | LOCK_NB) != 0) return code;
    ::flock(fd, LOCK_UN);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Locks `directory`. @return the descriptor that holds the lock
int lock(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  const std::filesystem::path path = directory / "lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw FileError(path, 0, concat("cannot be opened: ", std::strerror(errno)));
  if (const int code = take(fd); code != 0) {
    const std::string why = code == EWOULDBLOCK ? concat(directory.string(), " is in use by another run: ", owner_in(fd))
                                                : concat(path.string(), " cannot be locked: ", std::strerror(code));
    ::close(fd);
    throw Error(why);
  }
  const std::string owner = owner_here();
  const bool written = ::ftruncate(fd, 0) == 0 && ::pwrite(fd, owner.data(), owner.size(), 0) == static_cast<ssize_t>(owner.size());
  if (!written) {  // a full disk: the lock holds without its owner's name
    [[maybe_unused]] const int ignored = ::ftruncate(fd, 0);
  }
  return fd;
}

}  // namespace

DirectoryLock::DirectoryLock(const Communicator& comm, const std::filesystem::path& directory) {
  on_all_ranks(comm, concat("locking ", directory.string()), [&] {
    if (comm.rank() == 0) fd_ = lock(directory);
  });
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool is_in_use(const std::filesystem::path& directory) {
  const int fd = ::open((directory / "lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool in_use = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return in_use;
}

}  // namespace tw
