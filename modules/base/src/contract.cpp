// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/base/process.hpp>

#include <cstdlib>
#include <filesystem>

namespace tw::detail {
namespace {

std::string place(const char* file, int line) { return concat(std::filesystem::path(file).filename().string(), ":", line); }

}  // namespace

void throw_contract_error(const char* condition, const char* file, int line, const std::string& message) {
  throw ContractError(concat(process_label(), ": ", message, " [", place(file, line), ": expected ", condition, "]"));
}

void abort_on_broken_invariant(const char* condition, const char* file, int line) {
  log_error("broken invariant of Torchweave at ", place(file, line), ": ", condition);
  std::abort();
}

}  // namespace tw::detail
