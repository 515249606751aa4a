// SPDX-License-Identifier: Apache-2.0
// In a build without SQLite, in place of ../export_sqlite.cpp.
#include <tw/base/error.hpp>
#include <tw/search/report.hpp>

namespace tw::search {

void export_sqlite(const Ledger&, const Space&, const std::filesystem::path& path) {
  throw Error(path.string() +
              " cannot be written: Torchweave was built without SQLite. Export CSV instead, or install SQLite and build Torchweave again.");
}

}  // namespace tw::search
