// SPDX-License-Identifier: Apache-2.0
#include "working_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>

namespace tw::tool::selftest {
namespace {

std::string make_folder(const std::filesystem::path& parent) {
  std::string name = parent / "selftest.XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw FileError(parent, 0, "a folder cannot be created in it: " + std::generic_category().message(errno));
  return name;
}

}  // namespace

WorkingFolder::WorkingFolder(const Communicator& comm, const std::filesystem::path& parent) {
  on_all_ranks(comm, "creating a folder", [&] {
    if (comm.rank() == 0) remover_.folder = make_folder(parent);
  });
  path_ = broadcast_string(comm, remover_.folder, Rank(0));
}

WorkingFolder::Remover::~Remover() {
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
}

}  // namespace tw::tool::selftest
