// SPDX-License-Identifier: Apache-2.0
#include "search_folder.hpp"

#include <fstream>
#include <iterator>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/search/journal.hpp>
#include <tw/state/directory_lock.hpp>

namespace tw::tool {
namespace {

std::string text_in(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

void prepare_search_folder(const Communicator& comm, const std::filesystem::path& folder, const std::string& identity, bool fresh) {
  if (folder.empty()) return;
  const DirectoryLock lock(comm, folder);
  on_all_ranks(comm, concat("opening ", folder.string()), [&] {
    if (comm.rank() != 0) return;
    const std::filesystem::path path = folder / "objective.txt";
    const std::vector<std::filesystem::path> journal = search::journal_files(folder);
    if (!fresh && !journal.empty() && text_in(path) != identity) {
      throw Error(concat(folder.string(), " holds a search of another objective, which is described in its ", path.filename().string(),
                         ". Start over (--fresh), or set search.journal to another folder"));
    }
    if (fresh) {
      for (const std::filesystem::path& file : journal) std::filesystem::remove(file);
      std::filesystem::remove(folder / "test.txt");  // of the search that is discarded
    }
    replace_file(path, identity);
  });
}

}  // namespace tw::tool
