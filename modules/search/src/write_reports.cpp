// SPDX-License-Identifier: Apache-2.0
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/search/report.hpp>

namespace tw::search {

void write_reports(const std::filesystem::path& folder, const Space& space) {
  const Ledger ledger = read_ledger(folder, space);
  if (ledger.epochs == 0) throw Error("there is no journal of a search in " + folder.string());
  export_csv(ledger, space, folder / "trials.csv");
  export_sqlite(ledger, space, folder / "trials.sqlite");
  replace_file(folder / "report.html", html_report(ledger, space));
}

}  // namespace tw::search
