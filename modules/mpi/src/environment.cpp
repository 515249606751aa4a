// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <array>
#include <cstdlib>
#include <exception>
#include <tw/base/log.hpp>
#include <tw/base/process.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/error.hpp>

namespace tw {
namespace {

#ifdef TW_AUDIT_BUILD
constexpr bool audit_by_default = true;
#else
constexpr bool audit_by_default = false;
#endif

bool mpi_runs() {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

int native(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::single: return MPI_THREAD_SINGLE;
    case ThreadLevel::funneled: return MPI_THREAD_FUNNELED;
    case ThreadLevel::serialized: return MPI_THREAD_SERIALIZED;
    case ThreadLevel::multiple: return MPI_THREAD_MULTIPLE;
  }
  return MPI_THREAD_SINGLE;
}

ThreadLevel granted_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  for (const auto level : {ThreadLevel::multiple, ThreadLevel::serialized, ThreadLevel::funneled}) {
    if (provided == native(level)) return level;
  }
  return ThreadLevel::single;
}

// Nobody catches the exception, so nobody unwinds: without this the other ranks would learn of it from the launcher alone.
[[noreturn]] void abort_with_current_exception() {
  std::string message = "terminated without an exception";
  if (const auto current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      message = concat("uncaught exception: ", error.what());
    } catch (...) {
      message = "uncaught exception that is not a std::exception";
    }
  }
  Environment::abort(message);
}

}  // namespace

std::string_view to_string(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::single: return "MPI_THREAD_SINGLE";
    case ThreadLevel::funneled: return "MPI_THREAD_FUNNELED";
    case ThreadLevel::serialized: return "MPI_THREAD_SERIALIZED";
    case ThreadLevel::multiple: return "MPI_THREAD_MULTIPLE";
  }
  return "?";
}

Environment::Environment(int& argc, char**& argv, const EnvironmentOptions& options) : adopted_(mpi_runs()) {
  if (!adopted_) initialise(&argc, &argv, options);
  attach(options);
}

Environment::Environment(const EnvironmentOptions& options) : adopted_(mpi_runs()) {
  if (!adopted_) initialise(nullptr, nullptr, options);
  attach(options);
}

Environment::Environment(AdoptTag, const EnvironmentOptions& options) : adopted_(true) {
  if (!mpi_runs()) throw NotInitialisedError("Environment::adopt()");
  attach(options);
}

Environment Environment::adopt(const EnvironmentOptions& options) { return Environment(AdoptTag{}, options); }

void Environment::initialise(int* argc, char*** argv, const EnvironmentOptions& options) {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised != 0) throw Error("MPI was finalised already and cannot be started a second time in one process");
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Init_thread(argc, argv, native(options.thread_level), &provided), "MPI_Init_thread", "world");
  if (provided < native(options.thread_level)) {
    const auto granted = granted_thread_level();
    MPI_Finalize();
    throw Error(concat(to_string(options.thread_level), " was asked for and this MPI grants only ", to_string(granted),
                       ": ask for less in EnvironmentOptions::thread_level, or use an MPI that was built with threads"));
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::set_terminate(abort_with_current_exception);
}

void Environment::attach(const EnvironmentOptions& options) {
  exceptions_at_entry_ = std::uncaught_exceptions();
  thread_level_ = granted_thread_level();
  drain_timeout_ = options.drain_timeout;
  runtime_ = mpi::Runtime::find_current();
  made_runtime_ = runtime_ == nullptr;
  if (made_runtime_) {
    runtime_ = std::make_shared<mpi::Runtime>(options.audit.value_or(audit_by_default));
    mpi::Runtime::set_current(runtime_);
  }
  world_ = std::make_unique<Communicator>(mpi::make_communicator_state(MPI_COMM_WORLD, /*owned=*/false, "world", runtime_));
  set_process_rank(world_->rank());
}

Environment::~Environment() {
  if (!mpi_runs()) return;     // the host of an adopted MPI has finalised it: nothing can be freed any more
  if (!made_runtime_) return;  // the one outside does the rest
  if (std::uncaught_exceptions() > exceptions_at_entry_) {
    if (adopted_) {
      runtime_->abandon();
      return;
    }
    const std::string& last = last_error_message();
    abort(last.empty() ? "an exception left the scope of tw::Environment; catch it inside to see its message"
                       : concat("an exception left the scope of tw::Environment; the last error was: ", last));
  }
  try {
    if (!runtime_->drain(drain_timeout_)) {
      abort(concat("operations that were dropped before their completion did not complete within ", drain_timeout_.count(),
                   " ms: did every rank make the same calls?"));
    }
    runtime_->free_communicators();
  } catch (const std::exception& error) {
    abort(error.what());
  }
  if (!adopted_) MPI_Finalize();
}

std::string Environment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

void Environment::abort(std::string_view message, int exit_code) {
  log_error(message);
  if (mpi_runs()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace tw
