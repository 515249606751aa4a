// SPDX-License-Identifier: Apache-2.0
#include <tw/base/process.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace tw {
namespace {
// A fact about the process, like its pid; the only mutable global of this module.
std::atomic<int> known_rank{-1};
}  // namespace

int process_rank() noexcept { return known_rank.load(std::memory_order_relaxed); }

void set_process_rank(int rank) noexcept { known_rank.store(rank, std::memory_order_relaxed); }

std::string process_label() {
  const int rank = process_rank();
  return rank < 0 ? "this process" : "rank " + std::to_string(rank);
}

std::string without_process_label(const std::string& message) {
  const std::string label = process_label() + ": ";
  return message.starts_with(label) ? message.substr(label.size()) : message;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string process_identity() {
  std::string identity = std::to_string(::getpid()) + '_' + host_name();
  std::ranges::replace(identity, '/', '_');  // it is part of a file's name
  return identity;
}

}  // namespace tw
