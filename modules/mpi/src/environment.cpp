// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/environment.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/base/process.hpp>
#include <tw/base/terminal.hpp>
#include <tw/copy_mark.hpp>
#include <tw/mpi/error.hpp>

#include "runtime.hpp"

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

// Checked before MPI starts: if a process ends without MPI_Finalize, the launcher prints a long message that hides the real error.
void expect_valid(const EnvironmentOptions& options) {
  TW_EXPECTS(options.largest_message > 0 && options.largest_message <= 2147483647,
             "EnvironmentOptions::largest_message must be 1 to 2147483647, got ", options.largest_message);
  const auto expect_time = [](const char* option, std::chrono::milliseconds time) {
    TW_EXPECTS(time.count() > 0, "EnvironmentOptions::", option, " must be longer than 0 ms, got ", time.count(), " ms");
  };
  expect_time("stall_warning", options.stall_warning);
  expect_time("stall_abort", options.stall_abort);
  TW_EXPECTS(options.drain_timeout.count() >= 0, "EnvironmentOptions::drain_timeout must not be negative, got ", options.drain_timeout.count(),
             " ms");
}

// MPI libraries have different handles: a program that loads another MPI than the one it was compiled for would crash in its first call.
void expect_compiled_mpi() {
#ifdef OPEN_MPI
  constexpr std::string_view name = "Open MPI";
  constexpr std::array<std::string_view, 1> names{name};
#else
  constexpr std::string_view name = "MPICH, or an MPI with its binary interface,";
  constexpr std::array<std::string_view, 4> names{"MPICH", "Intel", "MVAPICH", "CRAY"};
#endif
  const std::string loaded = Environment::library_version();
  if (std::ranges::any_of(names, [&](std::string_view each) { return loaded.find(each) != std::string::npos; })) return;
  throw Error(concat("use one MPI to build and to run the program: Torchweave was compiled for ", name, " (", build_info().mpi,
                     "), but this process has loaded ", loaded));
}

[[gnu::used, gnu::aligned(4), gnu::section(".note.torchweave")]] const CopyMark copy_mark = {.module = {"mpi"}};

int native(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::funneled: return MPI_THREAD_FUNNELED;
    case ThreadLevel::serialized: return MPI_THREAD_SERIALIZED;
    case ThreadLevel::multiple: return MPI_THREAD_MULTIPLE;
  }
  return MPI_THREAD_FUNNELED;
}

// If the program started MPI at MPI_THREAD_SINGLE, that counts as funneled: the thread that started MPI makes all calls.
ThreadLevel granted_thread_level() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  for (const auto level : {ThreadLevel::multiple, ThreadLevel::serialized}) {
    if (provided == native(level)) return level;
  }
  return ThreadLevel::funneled;
}

// Our progress thread may call MPI only at the highest level.
ThreadLevel level_asked_for(const EnvironmentOptions& options) {
  return options.progress == ProgressDriver::thread ? ThreadLevel::multiple : options.thread_level;
}

// On an adopted MPI, the host may finalise while our Environment still exists. MPI_Finalize first deletes the attributes of MPI_COMM_SELF. Ours holds
// a weak reference to the runtime, and its deletion drains the runtime.
int drain_before_finalize(MPI_Comm, int, void* value, void*) {
  const std::unique_ptr<std::weak_ptr<mpi::Runtime>> holder(static_cast<std::weak_ptr<mpi::Runtime>*>(value));
  if (const auto runtime = holder->lock()) runtime->close();
  return MPI_SUCCESS;
}

// A rank that leaves early waits here for the others, not in MPI_Finalize, where no watchdog runs. In MPI_Finalize, Open MPI 4.1 has the launcher
// gather the ranks. If a rank that still computed then called MPI_Abort, the launcher hung in 2 of 80 jobs and crashed in another (in
// PMIx_server_finalize).
void wait_for_others_to_leave(mpi::Engine& engine, const std::shared_ptr<mpi::CommunicatorState>& world) {
  world->activity = "leaving tw::Environment, which ends when all ranks leave it";
  MPI_Request all_left = MPI_REQUEST_NULL;
  int code = MPI_Ibarrier(MPI_COMM_WORLD, &all_left);
  const auto all_have_left = [&] {
    constexpr timespec between_looks{.tv_sec = 0, .tv_nsec = 100'000};  // no hurry here, and others may need the core
    int done = 0;
    if (code == MPI_SUCCESS) code = MPI_Test(&all_left, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done != 0) return true;
    nanosleep(&between_looks, nullptr);
    return false;
  };
  engine.wait_for_peer(world, {.collective = Collective::barrier}, all_have_left, {});
}

// Open MPI 4 explains MPI_Abort in eight lines, which bury our message. Only MPI_Init reads the setting that suppresses them from the environment,
// and MPI_Init must be able to explain its own failures. So we set Open MPI's variable here. No other MPI has this variable.
void suppress_abort_text() {
  if (auto* quiet = static_cast<bool*>(dlsym(RTLD_DEFAULT, "orte_execute_quiet"))) *quiet = true;
}

// For an uncaught exception, which does not unwind the stack: without this handler, the other ranks would learn of it only from the launcher.
[[noreturn]] void abort_with_current_exception() {
  std::string message = "std::terminate() was called without an exception";
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
    case ThreadLevel::funneled: return "MPI_THREAD_FUNNELED";
    case ThreadLevel::serialized: return "MPI_THREAD_SERIALIZED";
    case ThreadLevel::multiple: return "MPI_THREAD_MULTIPLE";
  }
  return "?";
}

Environment::Environment(int& argc, char**& argv, const EnvironmentOptions& options) : adopted_(mpi_runs()) {
  if (!adopted_) std::set_terminate(abort_with_current_exception);
  expect_valid(options);
  expect_compiled_mpi();
  if (!adopted_) initialise(&argc, &argv, options);
  attach(options);
}

Environment::Environment(const EnvironmentOptions& options) : adopted_(mpi_runs()) {
  if (!adopted_) std::set_terminate(abort_with_current_exception);
  expect_valid(options);
  expect_compiled_mpi();
  if (!adopted_) initialise(nullptr, nullptr, options);
  attach(options);
}

Environment::Environment(AdoptTag, const EnvironmentOptions& options) : adopted_(true) {
  expect_compiled_mpi();
  if (!mpi_runs()) throw NotInitialisedError("Environment::adopt()");
  expect_valid(options);
  attach(options);
}

Environment Environment::adopt(const EnvironmentOptions& options) { return Environment(AdoptTag{}, options); }

void Environment::initialise(int* argc, char*** argv, const EnvironmentOptions& options) {
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised != 0) throw Error("MPI was already finalised in this process, and cannot be started a second time");
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Init_thread(argc, argv, native(level_asked_for(options)), &provided), "MPI_Init_thread", "world");
  if (provided < native(level_asked_for(options))) {
    const auto granted = provided == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : to_string(granted_thread_level());
    MPI_Finalize();
    throw Error(concat(to_string(level_asked_for(options)), " was requested, but this MPI grants only ", granted,
                       ": request a lower EnvironmentOptions::thread_level, or use an MPI that was built with threads"));
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

void Environment::attach(const EnvironmentOptions& options) {
  expect_only_copy();
  exceptions_at_entry_ = std::uncaught_exceptions();
  thread_level_ = granted_thread_level();
  runtime_ = mpi::Runtime::find_current();
  made_runtime_ = runtime_ == nullptr;
  if (made_runtime_) {
    if (options.progress == ProgressDriver::thread && thread_level_ != ThreadLevel::multiple) {
      throw Error(concat("ProgressDriver::thread needs MPI_THREAD_MULTIPLE, but the adopted MPI runs at ", to_string(thread_level_),
                         ": let the host request it in MPI_Init_thread, or use ProgressDriver::inlined"));
    }
    runtime_ = std::make_shared<mpi::Runtime>(options, options.audit.value_or(audit_by_default), thread_level_, adopted_);
    mpi::Runtime::set_current(runtime_);
    if (adopted_) {
      MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drain_before_finalize, &finalize_key_, nullptr);
      MPI_Comm_set_attr(MPI_COMM_SELF, finalize_key_, new std::weak_ptr<mpi::Runtime>(runtime_));
    }
  }
  world_ = std::make_unique<Communicator>(mpi::make_communicator_state(MPI_COMM_WORLD, /*owned=*/false, "world", runtime_, nullptr));
  set_process_rank(world_->rank());
  std::vector<int>& neighbours = runtime_->world_neighbours();
  if (!adopted_) neighbours = mpi::find_neighbours(*world_->state());
  world_->state()->neighbours = neighbours;
}

Environment::~Environment() {
  if (!mpi_runs()) return;     // the host of an adopted MPI has finalised it; nothing can be freed now
  if (!made_runtime_) return;  // the outer Environment does the rest
  if (std::uncaught_exceptions() > exceptions_at_entry_) {
    if (adopted_) {
      runtime_->abandon();
      return;
    }
    const std::string& last = last_error_message();
    abort(last.empty() ? "an exception left the scope of tw::Environment; catch it inside to see its message"
                       : concat("an exception left the scope of tw::Environment; the last error was: ", last));
  }
  world_->state()->leave();
  runtime_->close();
  if (adopted_) {
    MPI_Comm_delete_attr(MPI_COMM_SELF, finalize_key_);
    MPI_Comm_free_keyval(&finalize_key_);
    return;
  }
  wait_for_others_to_leave(runtime_->engine(), world_->state());
  MPI_Finalize();
}

int64_t Environment::communicators_to_free() const { return runtime_->communicators_to_free(); }

void Environment::free_communicators() { runtime_->free_communicators_queued_everywhere(*world_); }

void Environment::watch(std::chrono::milliseconds stall_warning, std::chrono::milliseconds stall_abort) {
  runtime_->engine().watch({.warning = stall_warning, .abort = stall_abort});
}

std::string Environment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

void Environment::abort(std::string_view message, int exit_code) {
  if (!message.empty()) log_error(message);
  wait_until_output_is_read(std::chrono::seconds(1));
  suppress_abort_text();
  if (mpi_runs()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace tw
