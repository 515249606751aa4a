// SPDX-License-Identifier: Apache-2.0
// run_cases TABLE [NAME]: runs commands of the tool in this process, on all ranks, and compares what they print. TABLE has a line a case, with tabs
// between the fields: name, "prints", "prints_without_mpi" or "refuses", an extended regular expression that a line of some rank must match, and the
// arguments. A refusal ends within 5 s. NAME: that case alone.
#include <regex.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <run_command.hpp>
#include <sstream>
#include <string>
#include <tw/comm/objects.hpp>
#include <vector>

namespace {

struct Case {
  std::string name;
  bool refuses = false;
  bool needs_no_mpi = false;
  std::string regex;
  std::vector<std::string> arguments;
};

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields;
    std::istringstream text(line);
    for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
    cases.push_back(
        {fields.at(0), fields.at(1) == "refuses", fields.at(1) == "prints_without_mpi", fields.at(2), {fields.begin() + 3, fields.end()}});
  }
  return cases;
}

/// What is written to standard output and standard error while it lives, by programs that are started, too.
class Captured {
 public:
  Captured() : out_(dup(STDOUT_FILENO)), err_(dup(STDERR_FILENO)) {
    std::cout.flush();
    dup2(fileno(file_), STDOUT_FILENO);
    dup2(fileno(file_), STDERR_FILENO);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    std::fclose(file_);
    close(out_);
    close(err_);
  }

  /// To be called once.
  std::string end() {
    std::cout.flush();
    std::cerr.flush();
    dup2(out_, STDOUT_FILENO);
    dup2(err_, STDERR_FILENO);
    std::rewind(file_);
    std::string text;
    for (int c = 0; (c = std::fgetc(file_)) != EOF;) text.push_back(static_cast<char>(c));
    return text;
  }

 private:
  std::FILE* file_ = std::tmpfile();
  int out_;
  int err_;
};

bool has_line(const std::string& text, const std::string& expression) {
  regex_t regex;
  if (regcomp(&regex, expression.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return false;
  bool found = false;
  std::istringstream lines(text);
  for (std::string line; !found && std::getline(lines, line);) found = regexec(&regex, line.c_str(), 0, nullptr, 0) == 0;
  regfree(&regex);
  return found;
}

/// Why the case fails; empty: it does not. The same on all ranks.
std::string failure_of(const Case& test, const tw::Environment& mpi) {
  std::vector<const char*> argv{"torchweave"};
  for (const std::string& argument : test.arguments) argv.push_back(argument.c_str());
  const auto begin = std::chrono::steady_clock::now();
  Captured captured;
  tw::tool::Session session;  // joins MPI, which this program has started, if the command asks for it
  const tw::tool::End end = tw::tool::run_command(static_cast<int>(argv.size()), argv.data(), session);
  const std::string printed = captured.end();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::string text;
  for (const std::string& of_rank : tw::allgather_strings(mpi.world(), printed + end.message + '\n')) text += of_rank;
  int worst = 0;
  for (const std::string& code : tw::allgather_strings(mpi.world(), std::to_string(end.exit_code))) worst = std::max(worst, std::stoi(code));
  if ((worst != 0) != test.refuses) return text + (test.refuses ? "it should have failed" : "exit code " + std::to_string(worst));
  if (!has_line(text, test.regex)) return text + "no line matches: " + test.regex;
  if (test.needs_no_mpi && session.has_mpi()) return text + "it has started MPI";
  if (test.refuses && seconds.count() > 5) return text + "it took " + std::to_string(seconds.count()) + " s";
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const bool reports = mpi.world().rank() == 0;
  int failed = 0;
  int run = 0;
  for (const Case& test : read_cases(argv[1])) {
    if (argc > 2 && test.name != argv[2]) continue;
    if (reports) std::cout << "case " << test.name << std::endl;  // so that one which hangs is named
    const std::string failure = failure_of(test, mpi);
    ++run;
    if (failure.empty()) continue;
    ++failed;
    if (reports) std::cout << failure << "\nFAILED: " << test.name << std::endl;
  }
  if (reports) std::cout << run << " cases, " << failed << " failed" << std::endl;
  return failed == 0 && run > 0 ? 0 : 1;
}
