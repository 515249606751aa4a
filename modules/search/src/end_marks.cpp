// SPDX-License-Identifier: Apache-2.0
// A mark is an empty file WORKER.RANK-of-RANKS.ended.
#include "end_marks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

namespace tw::search {
namespace {

constexpr const char* mark_suffix = ".ended";

std::array<char, 4096> mark_path{};  // global, since a handler may not allocate and takes no arguments

extern "C" void leave_mark(int signal) {
  const int mark = ::open(mark_path.data(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (mark >= 0) ::close(mark);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<std::filesystem::path> marks_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> marks;
  if (!std::filesystem::exists(folder)) return marks;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == mark_suffix) marks.push_back(entry.path());
  }
  return marks;
}

}  // namespace

EndMark::EndMark(const std::filesystem::path& folder, int worker, int rank, int ranks) {
  if (folder.empty() || mark_path[0] != '\0') return;
  const std::string path = (std::filesystem::absolute(folder) / concat(padded_text(worker, 5), '.', rank, "-of-", ranks, mark_suffix)).string();
  if (path.size() >= mark_path.size()) return;
  std::copy_n(path.c_str(), path.size() + 1, mark_path.begin());
  struct sigaction action = {};
  action.sa_handler = leave_mark;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction old = {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler != SIG_DFL) continue;
    sigaction(signal, &action, nullptr);
    replaced_.emplace_back(signal, old);
  }
}

EndMark::~EndMark() {
  if (replaced_.empty()) return;
  for (const auto& [signal, old] : replaced_) sigaction(signal, &old, nullptr);
  mark_path[0] = '\0';
}

std::set<int> marked_workers(const std::filesystem::path& folder) {
  std::map<int, int> missing;  // ranks, by worker
  for (const std::filesystem::path& mark : marks_in(folder)) {
    int worker = 0;
    int ranks = 0;
    if (std::sscanf(mark.filename().c_str(), "%d.%*d-of-%d", &worker, &ranks) != 2) continue;
    --missing.try_emplace(worker, ranks).first->second;
  }
  std::set<int> workers;
  for (const auto& [worker, ranks] : missing) {
    if (ranks == 0) workers.insert(worker);
  }
  return workers;
}

void remove_end_marks(const std::filesystem::path& folder) {
  for (const std::filesystem::path& mark : marks_in(folder)) std::filesystem::remove(mark);
}

}  // namespace tw::search
