// SPDX-License-Identifier: Apache-2.0
#include "leftovers.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>
#include <set>
#include <string>

namespace tw::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t long_enough_s = 60;  // within which a job that starts has mapped its files

/// Files that some process has mapped. Other users' processes are not examined: they cannot map files that only this user may read.
std::set<std::string> mapped_files(const std::string& below) {
  std::set<std::string> found;
  std::error_code code;
  for (const auto& process : fs::directory_iterator("/proc", code)) {
    if (std::isdigit(static_cast<unsigned char>(process.path().filename().string().front())) == 0) continue;
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (const size_t at = line.find(below); at != std::string::npos) found.insert(line.substr(at));
    }
  }
  return found;
}

bool is_ours_and_old(const fs::path& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid() && std::time(nullptr) - info.st_mtime >= long_enough_s;
}

}  // namespace

std::vector<fs::path> left_by_open_mpi(const fs::path& folder) {
  std::vector<fs::path> left;
  std::error_code code;
  const std::set<std::string> mapped = mapped_files((folder / "").string());
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    const bool is_segment = name.starts_with("vader_segment.") || name.starts_with("sm_segment.");  // of Open MPI 4, and 5
    if (is_segment && is_ours_and_old(entry.path()) && !mapped.contains(entry.path().string())) left.push_back(entry.path());
  }
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace tw::tool
