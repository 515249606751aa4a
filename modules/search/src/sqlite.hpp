// SPDX-License-Identifier: Apache-2.0
// RAII for SQLite's handles, with its errors as exceptions.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace tw::search {

/// A new database with a single writer.
class Database {
 public:
  /// Replaces an existing file. @throws FileError
  explicit Database(std::filesystem::path path);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Executes statements that return no rows. @throws FileError
  void execute(const char* statements);
  /// @throws FileError with the message of SQLite, unless `code` means success
  void expect(int code) const;

 private:
  friend class Insertion;

  std::filesystem::path path_;
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> handle_;
};

/// A prepared statement that inserts rows.
class Insertion {
 public:
  /// @param database borrowed. @param statement with a ? for each column
  Insertion(Database& database, const char* statement);

  /// Inserts a row. NaN, infinities and null pointers become NULL.
  template <class... Columns>
  void operator()(const Columns&... columns) {
    int column = 0;
    (bind(++column, columns), ...);
    step();
  }

 private:
  void bind(int column, int64_t value);
  void bind(int column, int value) { bind(column, static_cast<int64_t>(value)); }
  void bind(int column, size_t value) { bind(column, static_cast<int64_t>(value)); }
  void bind(int column, double value);
  void bind(int column, const std::string& value);
  void bind(int column, const char* value);
  void step();

  Database& database_;
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> handle_;
};

}  // namespace tw::search
