// SPDX-License-Identifier: Apache-2.0
#include "search_winner.hpp"
#include "figures_text.hpp"

#include <fstream>
#include <iostream>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::tool {
namespace {

int64_t lines_in(const std::filesystem::path& path) {
  std::ifstream in(path);
  int64_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

}  // namespace

void test_winner(const Communicator& comm, const SearchTask& task, const search::Individual& best, int ranks, const std::filesystem::path& folder) {
  const int group = comm.rank() / ranks;
  const Communicator part = comm.split(group, comm.rank());
  if (part.size() < ranks) return;  // a mesh may need all ranks of a worker
  const train::Figures figures = task.test(best.values, part, concat("winner_", group));
  if (comm.rank() != 0 || figures.empty()) return;
  std::cout << "  test         " << figures_text(figures) << ": trained again with the best configuration, model of the best epoch";
  if (folder.empty()) {
    std::cout << std::endl;
    return;
  }
  const std::filesystem::path path = folder / "test.txt";
  const int64_t before = lines_in(path);
  std::cout << (before == 0 ? std::string("; the first look at the test set") : concat("; earlier looks at the test set: ", before)) << std::endl;
  std::ofstream out(path, std::ios::app);
  out << "trial " << best.trial << ": " << figures_text(figures) << std::endl;
  if (!out) throw FileError(path, 0, "cannot be written");
}

}  // namespace tw::tool
