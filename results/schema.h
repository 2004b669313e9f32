// The tables of run.db. Constraints: any program that speaks SQLite can read it while a run writes
// it; a kill at any instant leaves whole transactions only; one file per run that can be copied.
// Rejected: a log of JSON lines (no reader can ask it anything, half lines after a kill), one
// database for all runs (a broken file loses every run, and no two runs could write at once), files
// per candidate (thousands of inodes on cluster file systems, no transaction over two of them).
//
// Layout: PRAGMA application_id = kApplicationId marks the file as ours, PRAGMA user_version is the
// schema's version. Migrations are a table of steps; a step is never edited once released, a change
// is a new step. docs/store.md describes every column.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace SQLite {
class Database;
}

namespace grove::results {

inline constexpr std::int32_t kApplicationId = 0x47525645;  // "GRVE"

struct Migration {
  int version;            // after the step; steps are in ascending order from 1
  const char* statement;  // SQL, many statements
};
std::span<const Migration> Migrations();
int SchemaVersion();  // the newest

// Brings the database to the newest version, all steps in one transaction; nothing happens when it
// is there. A database without any table and without an application id becomes one of ours. Throws
// SQLite::Exception when a statement fails, with the database as it was; otherwise kInvalidInput
// for a file that is not ours and for a version newer than ours.
Status Migrate(SQLite::Database& database, std::span<const Migration> steps);

// The checks of Migrate alone: the file is ours and not newer. The version it has.
Result<int> CheckVersion(SQLite::Database& database, std::span<const Migration> steps);

}  // namespace grove::results
