"""What each PTX instruction does: functions that turn one into a step of a warp."""
