// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "commands.hpp"
#include "selftest/part.hpp"
#include "selftest/run.hpp"
#include "written_output.hpp"

namespace tw::tool {

void add_selftest(CLI::App& app, Session& session) {
  const auto options = std::make_shared<selftest::RunOptions>();
  CLI::App* command = app.add_subcommand("selftest", "Test this installation on the ranks of any launcher, in two minutes, and record what passed");
  command->add_option("--json", options->json, "File for the record, in a folder that all ranks can write. The record names no host, user or folder")
      ->capture_default_str();
  command->add_option("--limit", options->limit, "Seconds after which a rank that waits for others ends the job")
      ->capture_default_str()
      ->check(CLI::Range(1, 86400));
  std::vector<std::string> known{"all"};
  for (const selftest::Part& part : selftest::parts()) known.emplace_back(part.name);
  // To test the self-test; without a group, the help leaves them out.
  command->add_option("--break", options->wrong_parts, "Parts in which the last rank computes with wrong values")
      ->check(CLI::IsMember(known))
      ->group("");
  command->add_option("--throw", options->throwing_parts, "Parts in which the last rank throws")->check(CLI::IsMember(known))->group("");
  command->callback([&session, options] {
    const bool passed = selftest::run(session.mpi(), *options);
    expect_output_written();
    if (!passed) throw CLI::RuntimeError(1);
  });
}

}  // namespace tw::tool
