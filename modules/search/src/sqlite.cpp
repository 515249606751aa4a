// SPDX-License-Identifier: Apache-2.0
#include "sqlite.hpp"

#include <cmath>
#include <tw/base/error.hpp>

namespace tw::search {

Database::Database(std::filesystem::path path) : path_(std::move(path)), handle_(nullptr, &sqlite3_close) {
  std::filesystem::remove(path_);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path_.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  handle_.reset(handle);
  expect(code);
}

void Database::execute(const char* statements) { expect(sqlite3_exec(handle_.get(), statements, nullptr, nullptr, nullptr)); }

void Database::expect(int code) const {
  if (code == SQLITE_OK || code == SQLITE_DONE) return;
  throw FileError(path_, 0, std::string("cannot be written: ") + (handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code)));
}

Insertion::Insertion(Database& database, const char* statement) : database_(database), handle_(nullptr, &sqlite3_finalize) {
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v2(database.handle_.get(), statement, -1, &handle, nullptr);
  handle_.reset(handle);
  database.expect(code);
}

void Insertion::bind(int column, int64_t value) { database_.expect(sqlite3_bind_int64(handle_.get(), column, value)); }

void Insertion::bind(int column, double value) {
  database_.expect(std::isfinite(value) ? sqlite3_bind_double(handle_.get(), column, value) : sqlite3_bind_null(handle_.get(), column));
}

void Insertion::bind(int column, const std::string& value) {
  database_.expect(sqlite3_bind_text64(handle_.get(), column, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Insertion::bind(int column, const char* value) {
  if (value == nullptr) {
    database_.expect(sqlite3_bind_null(handle_.get(), column));
  } else {
    bind(column, std::string(value));
  }
}

void Insertion::step() {
  database_.expect(sqlite3_step(handle_.get()));
  database_.expect(sqlite3_reset(handle_.get()));
}

}  // namespace tw::search
